"""How HTTPS repositories are cached: hosts ask the cache with http, and it fetches them with HTTPS.

A cache sees into no TLS. apt-cacher-ng has two ways round that: ``http://HTTPS///host/path``, which only a cache
understands, so that a host without it has nowhere to go; and its Remap rules, by which ``http://host/path`` is fetched
from ``https://host/path``. Here it is the second: a host that goes without the cache still finds the repository, for
apt follows a redirection to HTTPS. What it gets is proved by the repository's signature either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# where the roles' packages come from as long as a site names nothing else
VENDORS = (
    "https://download.docker.com/linux",
    "https://nvidia.github.io/libnvidia-container",
    "https://developer.download.nvidia.com/compute/cuda/repos",
    "https://linux.mellanox.com/public/repo",
)


def asked(url: str) -> str:
    """How hosts ask a cache for it: with http."""
    return "http://" + url.removeprefix("https://") if url.startswith("https://") else url


def cached(url: str, cache_url: str) -> str:
    """The address for a host's sources: a vendor's own by http where there is a cache; any other as it is."""
    return asked(url) if cache_url and any(_below(url, vendor) for vendor in VENDORS) else url


def remaps(repositories: Iterable[Mapping[str, Any]], own: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """What the cache has to fetch from elsewhere than hosts ask for: HTTPS, or a copy of the site's.

    A site's word goes before the vendors': the cache takes the rule with the longest address, so one of a vendor's is
    left out where the site has a rule for that address or for more than it.
    """
    rules = {}
    for repository in repositories:
        url = asked(repository["url"])
        upstream = repository.get("mirror") or repository["url"]
        if url != upstream:
            rules[url] = upstream
    rules.update((rule["url"], rule["upstream"]) for rule in own)
    said = list(rules)
    for vendor in VENDORS:
        if not any(_below(asked(vendor), url) for url in said):
            rules[asked(vendor)] = vendor
    return [{"url": url, "upstream": upstream} for url, upstream in rules.items()]


def _below(url: str, above: str) -> bool:
    """Whether it is that address, or one below it."""
    return f"{url}/".startswith(f"{above.rstrip('/')}/")
