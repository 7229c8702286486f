"""How HTTPS repositories are cached: hosts ask the cache with http, and it fetches them with HTTPS.

A cache sees into no TLS. apt-cacher-ng has two ways round that: ``http://HTTPS///host/path``, which only a cache
understands, so that a host without it has nowhere to go; and its Remap rules, by which ``http://host/path`` is fetched
from ``https://host/path``. Here it is the second: a host that goes without the cache still finds the repository, for
apt follows a redirection to HTTPS. What it gets is proved by the repository's signature either way.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from firstlight.errors import InputError

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


def clients(allowed: Iterable[str]) -> list[str]:
    """Networks and addresses as hosts_access(5) matches them without asking DNS for the client's name.

    An address of IPv6 by itself, like a name, would have every connection wait for that answer: five seconds and more
    where no server gives any. InputError for what is no network or address.
    """
    networks = []
    for text in allowed:
        address, _, mask = str(text).strip().partition("/")
        address = address.removeprefix("[").removesuffix("]")
        try:
            networks.append(ipaddress.ip_network(f"{address}/{mask}" if mask else address, strict=False))
        except ValueError:
            raise InputError(
                f"no network or address: {text!r}; as in 10.0.0.0/16, 10.0.0.0/255.255.0.0 or fd00::/64",
                "apt_cache_allowed_clients",
            ) from None
    return [_matched(network) for network in networks]


def _matched(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    if network.version == 6:
        return f"[{network.network_address}]/{network.prefixlen}"
    # the library takes a mask of 255.255.255.255 for an error
    return str(network.network_address) if network.prefixlen == 32 else f"{network.network_address}/{network.netmask}"


def _below(url: str, above: str) -> bool:
    """Whether it is that address, or one below it."""
    return f"{url}/".startswith(f"{above.rstrip('/')}/")
