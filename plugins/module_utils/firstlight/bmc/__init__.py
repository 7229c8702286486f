"""BMCs over Redfish: asking many at once, judging what they say, boot and power control."""
