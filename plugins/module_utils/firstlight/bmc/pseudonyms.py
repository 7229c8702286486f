"""Replacing what identifies a machine or its site in a Redfish tree: consistently, and in the same shape.

Serial numbers, tags, UUIDs, MACs and other hardware addresses, IP addresses, host and user names get pseudonyms, made
with a random key that is thrown away; passwords, keys and the like are removed. Firmware versions, models, part
numbers, slots and the vendor's half of a MAC stay: a bug report is about them.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import FirstlightError
from .values import text as text_of

REMOVED = "REMOVED"

_SECRET_KEY = re.compile(
    r"password|passphrase|secret|token|community|credential|(private|public|auth\w*|encryption|shared|ssh|hash)_?key"
    r"|certificatestring|salt$|email|contact|postal",
    re.IGNORECASE,
)
_SERIAL_KEY = re.compile(
    r"(serial(_?(number|num|no))?|service_?tag|asset_?tag|servicecode|uuid|guid|ww[np]n?|durablename|node_?id|ppid|iqn"
    r"|initiatorname|eui(64)?)$",
    re.IGNORECASE,
)
_HOST_KEY = re.compile(r"(host_?name|fqdn|domain_?name|dns_?(rac|idrac|bmc)?name)$", re.IGNORECASE)
_USER_KEY = re.compile(r"user_?name$|^originator$|^createdby$", re.IGNORECASE)
_VERSION_KEY = re.compile(r"version|firmware|release|revision|build", re.IGNORECASE)
_IP_KEY = re.compile(r"address|gateway|server|host|dns|ntp|subnet|destination|origin|^ip|uri$", re.IGNORECASE)
_HEX_KEY = re.compile(r"mac|address|guid|ww[np]", re.IGNORECASE)

_OCTETS = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4,18}(?![0-9A-Fa-f])")
_BARE_HEX = re.compile(r"(?:0x)?([0-9A-Fa-f]{12}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{32})")
_UUID = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f])")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{0,40}:[0-9A-Fa-f:.]{0,40}(?![\w:])")
_TOLD_SERIAL = re.compile(r"(?:serial(?: number)?|s/n|(?:service|asset) tag)\W{1,3}([A-Za-z0-9-]{5,40})", re.IGNORECASE)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@(?!odata|Redfish|Message)[\w-]+\.[\w.-]+")
# Dell's names of slots look like serial numbers to no human, but have digits too.
_SLOT = re.compile(r"\.(Embedded|Slot|Bay|Internal|Integrated|SL|Direct|Mezzanine|Chassis|Setup)\.")
_NOTHING = {"none", "null", "unknown", "not available", "not specified", "default string", "not present", "undefined"}
_NOTHING |= {"n/a", "na", "enabled", "disabled", "localhost", "idrac", "shared", "static", "dhcp"}
_NO_ADDRESS = {"0.0.0.0", "127.0.0.1", "255.255.255.255"}  # noqa: S104  not addresses of anybody
_ATTEMPTS = 5


class Pseudonyms:
    """Pseudonyms for one capture.

    secret_values: what must not be left anywhere, e.g. the password that was used (not below 4 characters: those
    stand everywhere). addresses: IP addresses that are
    replaced wherever they stand. user_names: replaced in texts and where a user name belongs.
    """

    def __init__(
        self, secret_values: Iterable[str] = (), addresses: Iterable[str] = (), user_names: Iterable[str] = ()
    ) -> None:
        self._secrets = {value for value in secret_values if len(value) >= 4}
        self._ips = {value for value in addresses if value}
        self._users = {value for value in user_names if value}
        self._serials: set[str] = set()  # upper case, replaced wherever they stand
        self._words: set[str] = set()  # upper case, replaced where they stand alone
        self._octets: set[str] = set()  # hexadecimal digits in upper case, without separators
        self._versions: set[str] = set()
        self._ips_told: set[str] = set()  # seen where a version could stand as well
        self._made: dict[str, str] = {}
        self._key = secrets.token_bytes(32)

    def replace_tree(
        self, resources: Mapping[str, Any], texts: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Resources by path, and texts by path (failures), replaced. FirstlightError when something would be left."""
        for resource in resources.values():
            _walk(resource, self._collect)
            self._collect_dell_tag(resource)
        for path, text in texts.items():
            self._collect("Message", text)
            self._collect("@odata.id", path)
        self._ips |= self._ips_told - self._versions
        for _attempt in range(_ATTEMPTS):
            self._made.clear()
            self._key = secrets.token_bytes(32)
            pattern = self._pattern()
            replaced = {self._text("@odata.id", p, pattern): self._value("", r, pattern) for p, r in resources.items()}
            told = {self._text("@odata.id", p, pattern): self._text("Message", t, pattern) for p, t in texts.items()}
            left = self._left(json.dumps([replaced, told]))
            if not left and len(replaced) == len(resources):
                return replaced, told
        raise FirstlightError(
            "what identifies the machine cannot be told from the rest of its tree; nothing is written"
        )

    # -- what to replace ----------------------------------------------------------------------------------------------

    def _collect(self, key: str, value: Any) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and _SERIAL_KEY.search(key):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            return
        value = value.strip()
        if _SECRET_KEY.search(key):
            if len(value) >= 8 and " " not in value and any(c.isdigit() for c in value):
                self._secrets.add(value)
            return
        if _VERSION_KEY.search(key):
            self._versions.update(_IPV4.findall(value))
            return
        if _USER_KEY.search(key):
            self._users.add(value)
        for match in _OCTETS.finditer(value):
            self._add_octets(match[0])
        hexadecimal = _BARE_HEX.fullmatch(value)
        if hexadecimal and _HEX_KEY.search(key):
            self._add_octets(hexadecimal[1])
        elif _SERIAL_KEY.search(key) and not _OCTETS.fullmatch(value):
            self._add_serial(value)
        elif _HOST_KEY.search(key):
            self._add_host(value)
        for match in _UUID.finditer(value):
            self._add_serial(match[0])
        for match in _TOLD_SERIAL.finditer(value) if " " in value else ():
            if any(c.isdigit() for c in match[1]):
                self._add_serial(match[1])
        if not key.startswith("@odata") and key not in ("Id", "target"):
            self._ips_told.update(_addresses(value))
            if _IP_KEY.search(key):
                self._ips.update(_addresses(value))

    def _collect_dell_tag(self, resource: Any) -> None:
        """Dell's service tag is the SKU of systems and chassis; everywhere else a SKU is a product."""
        tag = text_of(resource, "SKU")
        if text_of(resource, "Manufacturer").startswith("Dell") and re.fullmatch(r"[A-Z0-9]{5,7}", tag):
            self._add_serial(tag)

    def _add_octets(self, text: str) -> None:
        digits = re.sub(r"[:-]", "", text).upper()
        if len(set(digits)) > 1:  # zeros and broadcasts are nobody's, and worth knowing
            self._octets.add(digits)

    def _add_serial(self, value: str) -> None:
        if not _is_identity(value):
            return
        digits = sum(c.isdigit() for c in value)
        letters = sum(c.isalpha() for c in value)
        if not digits and (not value.isupper() or len(value) < 6):
            return  # a word that has strayed into the place of a serial number
        anywhere = digits and len(value) >= (6 if letters else 8)
        (self._serials if anywhere else self._words).add(_upper(value))

    def _add_host(self, value: str) -> None:
        for part in {value, value.partition(".")[0]}:
            if _is_identity(part) and len(part) >= 4 and not _addresses(part):
                self._words.add(_upper(part))

    def _pattern(self) -> re.Pattern[str] | None:
        """Finds all that was collected, longest first."""
        alone = (rf"(?<![A-Za-z0-9]){re.escape(w)}(?![A-Za-z0-9])" for w in _longest(self._words) if len(w) >= 4)
        parts = [
            *(_spellings(digits) for digits in _longest(self._octets)),
            *map(re.escape, _longest(self._serials | self._secrets)),
            *alone,
        ]
        return re.compile("|".join(parts), re.IGNORECASE) if parts else None

    def _left(self, text: str) -> bool:
        """True when anything that had to go is still there."""
        text = text.upper()
        bare = re.sub(r"[:-]", "", text)
        secret = any(json.dumps(value)[1:-1].upper() in text for value in self._secrets)
        return secret or any(s in text for s in self._serials) or any(o in bare for o in self._octets)

    # -- replacing ----------------------------------------------------------------------------------------------------

    def _value(self, key: str, value: Any, pattern: re.Pattern[str] | None) -> Any:
        if isinstance(value, dict):
            return {self._name(k, pattern): self._value(k, v, pattern) for k, v in value.items()}
        if isinstance(value, list):
            return [self._value(key, item, pattern) for item in value]
        if isinstance(value, str):
            return self._text(key, value, pattern)
        if isinstance(value, int) and not isinstance(value, bool) and _SERIAL_KEY.search(key) and abs(value) > 9:
            made = int(re.sub(r"^0", "1", self._like(str(abs(value)))))
            return made if value > 0 else -made
        return value

    def _name(self, key: str, pattern: re.Pattern[str] | None) -> str:
        return key if key.startswith(("@", "#")) else self._text("", key, pattern)

    def _text(self, key: str, text: str, pattern: re.Pattern[str] | None) -> str:
        if not text.strip():
            return text
        if _SECRET_KEY.search(key):
            return REMOVED
        if _SERIAL_KEY.search(key) and _upper(text.strip()) in self._words:
            return self._like(text.strip())
        if _USER_KEY.search(key):
            return self._named("user", text.strip())
        if pattern:
            text = pattern.sub(self._found, text)
        if " " in text:
            for name in _longest(self._users):
                told = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
                text = told.sub(lambda _m, name=name: self._named("user", name), text)  # type: ignore[misc]
        text = _EMAIL.sub("mail@example.com", text)
        if not _VERSION_KEY.search(key):
            text = _IPV4.sub(self._ip, text)
            text = _IPV6.sub(self._ip, text)
        return text

    def _found(self, match: re.Match[str]) -> str:
        found = match[0]
        if found in self._secrets:
            return REMOVED
        digits = re.sub(r"[.:-]", "", found).upper()
        if digits in self._octets and _upper(found) not in self._serials:
            made = iter(self._like(digits, keep=6))
            return "".join(_cased(next(made), c, found) if c.isalnum() else c for c in found)
        if _upper(found) not in self._serials | self._words:
            return REMOVED  # a secret in another case
        return self._like(found)

    def _like(self, text: str, keep: int = 0) -> str:
        """The pseudonym of a text: as long, digits for digits, letters for letters; ``keep`` characters stay."""
        name = _upper(text)
        if name not in self._made:
            taken = set(self._made.values()) | self._serials | self._words | self._octets
            for attempt in range(1000):
                made = name[:keep] + _shaped(name[keep:], self._digest(f"{attempt}/{name}"))
                if made not in taken:
                    break
            self._made[name] = made
        return "".join(_cased(new, old, text) for new, old in zip(self._made[name], text, strict=True))

    def _ip(self, match: re.Match[str]) -> str:
        found = match[0]
        if found not in self._ips:
            return found
        names = [n for n in self._made if n.startswith("IP ")]
        if f"IP {found}" not in self._made:
            self._made[f"IP {found}"] = self._new_ip(found, len(names))
        return self._made[f"IP {found}"]

    def _new_ip(self, found: str, number: int) -> str:
        """One of the addresses that are set aside for examples."""
        taken = set(self._made.values()) | self._ips
        base = ipaddress.ip_address("2001:db8::1" if ":" in found else "198.18.0.1")
        while str(base + number) in taken:
            number += 1
        return str(base + number)

    def _named(self, kind: str, value: str) -> str:
        name = f"{kind} {value}"
        if name not in self._made:
            self._made[name] = f"{kind}{1 + sum(k.startswith(f'{kind} ') for k in self._made)}"
        return self._made[name]

    def _digest(self, text: str) -> bytes:
        return b"".join(
            hmac.digest(self._key, f"{n}/{text}".encode("utf-8", "surrogatepass"), hashlib.sha256) for n in range(8)
        )


def _walk(value: Any, visit: Callable[[str, Any], None], key: str = "") -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            visit("", name)
            _walk(item, visit, name)
    elif isinstance(value, list):
        for item in value:
            _walk(item, visit, key)
    else:
        visit(key, value)


def _is_identity(value: str) -> bool:
    """False for what stands where a serial number is missing, and for names of slots."""
    text = value.strip().lower()
    return len(text) >= 2 and len(set(text)) > 1 and text not in _NOTHING and not _SLOT.search(value)


def _addresses(text: str) -> set[str]:
    """The IP addresses in a text, as they are spelt there."""
    found = set()
    for match in [*_IPV4.finditer(text), *_IPV6.finditer(text)]:
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            continue
        mask = address.version == 4 and match[0].startswith("255.")
        if (
            match[0] not in _NO_ADDRESS
            and not mask
            and int(address) > 1
            and not match[0].endswith("::")
            and not _OCTETS.fullmatch(match[0])
        ):
            found.add(match[0])
    return found


def _spellings(digits: str) -> str:
    """A pattern for octets with colons, hyphens or nothing between them, and for a MAC in groups of four."""
    pairs = [digits[i : i + 2] for i in range(0, len(digits), 2)]
    fours = [digits[i : i + 4] for i in range(0, len(digits), 4)]
    forms = [r"[:-]?".join(pairs)]
    return "|".join([*forms, r"\.".join(fours)] if len(digits) == 12 else forms)


def _upper(text: str) -> str:
    """In upper case and of the same length, which some letters outside ASCII would not keep."""
    return "".join(c.upper() if len(c.upper()) == 1 else c for c in text)


def _longest(values: Iterable[str]) -> list[str]:
    return sorted(values, key=lambda v: (-len(v), v))


def _shaped(text: str, random: bytes) -> str:
    hexadecimal = all(c in "0123456789ABCDEF" for c in text if c.isalnum())
    made = []
    for number, char in enumerate(text):
        byte = random[number % len(random)]
        if char.isdigit() and char.isascii():
            made.append(str(byte % 10))
        elif char.isalpha():
            made.append("ABCDEF"[byte % 6] if hexadecimal else chr(65 + byte % 26))
        else:
            made.append(char)
    return "".join(made)


def _cased(new: str, old: str, within: str) -> str:
    """The new character in the case of the old one; a digit has none and takes that of the text around it."""
    if old.isalpha():
        return new.lower() if old.islower() else new
    return new.lower() if within.islower() else new
