"""Health: the checks' entry points, on a host without Ansible and for the fleet. See docs/health.md.

``onhost`` and what it imports run on hosts: standard library only, Python 3.8 or later.
"""

VERSION = "0.1.0"
