"""Facts that several roles need, gathered in one call (module host_facts). Standard library only, Python 3.9 or later.

disks, system, pci: pure functions over captured text. gather: the reading.
"""
