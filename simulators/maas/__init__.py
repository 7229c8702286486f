"""A simulated MAAS region: the MAAS 2.0 API over TLS, a Redfish power driver, and the network boot of the lab.

Not part of the product. Start it with ``python -m simulators.maas --lab-dir DIR``; simulators/README.md says how it
works together with the simulated BMCs. It answers as MAAS 3.7 does, or as 3.4 where ``maas.version`` in lab.json
says so.
"""
