"""The report as one page for people: HTML that needs nothing else, and the same as JSON."""
