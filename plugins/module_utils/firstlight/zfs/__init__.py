"""ZFS pools over a host's data drives (module zfs_pool). Standard library only, Python 3.9 or later.

status: what zpool and zfs print, understood. plan: which pool to make, import or mend, and what speaks against it.
properties: which settings differ. health: findings about a pool. All pure; talking to a host is in run.
"""
