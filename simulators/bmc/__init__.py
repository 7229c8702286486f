"""Simulated iDRAC9s of XE9680-sized servers: not hardware, and not part of the product."""
