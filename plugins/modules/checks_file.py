"""Documentation of the action plugin of the same name."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: checks_file
short_description: Bring the self-contained file of the checks onto a host
description:
  - Builds it on the controller from the library (C(firstlight.health.selfcontained)) and copies it, owned by root and
    executable. Equal sources give equal bytes, so nothing changes where nothing changed.
options:
  dest:
    description: Where to, on the host.
    type: path
    required: true
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Install the checks
  checks_file:
    dest: /usr/local/sbin/firstlight-checks
"""

RETURN = r"""
dest:
  description: Where it is on the host.
  type: str
  returned: success
"""
