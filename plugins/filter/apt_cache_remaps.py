"""What a cache of packages fetches from elsewhere than hosts ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from firstlight.aptcache import remaps

DOCUMENTATION = r"""
name: apt_cache_remaps
short_description: What a cache of packages fetches from elsewhere than hosts ask for
description: Rules for the site's repositories, the site's own rules, and one for each vendor that these say nothing of.
positional: own
options:
  _input:
    description: The site's repositories, each with C(url) and perhaps C(mirror).
    type: list
    elements: dict
    required: true
  own:
    description: The site's own rules, each with C(url) and C(upstream).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show the rules
  ansible.builtin.debug:
    msg: "{{ apt_cache_repositories | apt_cache_remaps(apt_cache_remaps) }}"
"""

RETURN = r"""
_value:
  description: Rules, each with C(url) and C(upstream).
  type: list
  elements: dict
"""


def apt_cache_remaps(
    repositories: Iterable[Mapping[str, Any]], own: Iterable[Mapping[str, Any]] = ()
) -> list[dict[str, str]]:
    return remaps(repositories, own)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"apt_cache_remaps": apt_cache_remaps}
