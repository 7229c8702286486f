"""The address of a repository as it goes into a host's sources."""

from __future__ import annotations

from typing import Any

from firstlight.aptcache import cached

DOCUMENTATION = r"""
name: apt_cached
short_description: The address of a repository as it goes into a host's sources
description:
  - A vendor's own HTTPS repository by http where there is a cache of packages, which fetches it with HTTPS (role
    C(apt_cache)); any other address, a site's mirror above all, as it is.
positional: cache_url
options:
  _input:
    description: Address of the repository.
    type: str
    required: true
  cache_url:
    description: Address of the cache, O(cache_url) being empty where there is none.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Say where Docker comes from
  ansible.builtin.debug:
    msg: "{{ docker_engine_repository_url | apt_cached(apt_cache_url | default('')) }}"
"""

RETURN = r"""
_value:
  description: The address.
  type: str
"""


def apt_cached(url: str, cache_url: str) -> str:
    return cached(str(url), str(cache_url or ""))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"apt_cached": apt_cached}
