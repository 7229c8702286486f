"""A server as a QEMU machine, and the rack controller that boots it: a real DHCP, TFTP and HTTP boot."""
