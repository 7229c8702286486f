"""Who may use a cache of packages, as its access control takes it."""

from __future__ import annotations

from collections.abc import Iterable

from ansible.errors import AnsibleFilterError

from firstlight.aptcache import clients
from firstlight.errors import InputError

DOCUMENTATION = r"""
name: apt_cache_clients
short_description: Who may use a cache of packages, as its access control takes it
description:
  - Networks and addresses in the form of hosts_access(5) by which no client's name is looked up; where no DNS server
    answers, a lookup would have each connection wait for seconds.
options:
  _input:
    description: Networks and addresses of IPv4 and IPv6.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show them
  ansible.builtin.debug:
    msg: "{{ ['10.0.0.0/16', '::1'] | apt_cache_clients }}"
"""

RETURN = r"""
_value:
  description: The same, as in C(10.0.0.0/255.255.0.0) and C([::1]/128).
  type: list
  elements: str
"""


def apt_cache_clients(allowed: Iterable[str]) -> list[str]:
    try:
        return clients(allowed)
    except InputError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, object]:
        return {"apt_cache_clients": apt_cache_clients}
