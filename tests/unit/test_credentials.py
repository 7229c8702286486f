"""Which login each BMC gets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.credentials import Credential, Credentials
from firstlight.errors import InputError

PLAIN = {"bmc_username": "root", "bmc_password": "plain"}


def of(rows: Any, name: str = "n1", address: str = "10.10.1.11", environ: dict[str, str] | None = None) -> Credential:
    return Credentials({**PLAIN, "bmc_credentials": rows}, "s.yml", environ or {}).of(name, address)


def error(rows: Any, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        of(rows, **more)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


def test_the_sites_own() -> None:
    assert of([]) == of(None) == Credential("root", "plain")


@pytest.mark.parametrize(
    ("addresses", "inside", "outside"),
    [
        ("10.10.1.0/24", "10.10.1.255", "10.10.2.0"),
        ("10.10.1.11-10.10.1.18", "10.10.1.18", "10.10.1.19"),
        ("10.10.1.11", "10.10.1.11", "10.10.1.12"),
        ("fd00::/64", "fd00::ffff", "10.10.1.11"),
        ("fd00::1 - fd00::f", "fd00::f", "fd00::10"),
    ],
)
def test_a_range(addresses: str, inside: str, outside: str) -> None:
    rows = [{"addresses": addresses, "username": "admin", "password": "other"}]
    assert of(rows, address=inside) == Credential("admin", "other")
    assert of(rows, address=outside) == Credential("root", "plain")


@given(st.permutations(range(4)))
def test_the_most_exact_wins_in_any_order(order: list[int]) -> None:
    rows = [
        {"addresses": "10.0.0.0/8", "password": "eight"},
        {"addresses": "10.10.1.0/24", "password": "network"},
        {"addresses": "10.10.1.10-10.10.1.20", "password": "range"},
        {"host": "n7", "username": "admin", "password": "host"},
    ]
    mixed = [rows[n] for n in order]
    assert of(mixed, "n7") == Credential("admin", "host")
    assert of(mixed) == Credential("root", "range")
    assert of(mixed, address="10.10.1.9") == Credential("root", "network")
    assert of(mixed, address="10.9.0.1") == Credential("root", "eight")


def test_the_environment_overrides_the_plain_ones_only() -> None:
    environ = {"FIRSTLIGHT_BMC_PASSWORD": "from outside"}
    rows = [{"host": "n2", "password": "own"}]
    assert of(rows, environ=environ) == Credential("root", "from outside")
    assert of(rows, "n2", environ=environ) == Credential("root", "own")


def test_a_default_of_the_host() -> None:
    known = Credentials({"bmc_credentials": [{"host": "n2", "password": "own"}]}, "", {})
    default = {"bmc_username": "ops", "bmc_password": "theirs"}
    assert known.of("n1", "10.0.0.1", default) == Credential("ops", "theirs")
    assert known.of("n2", "10.0.0.1", default) == Credential("ops", "own")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("x", "bmc_credentials must be a list of entries with addresses: or host:"),
        ([1], "bmc_credentials[0] must be a mapping with addresses, host, username, password"),
        ([{"host": "n1"}], "bmc_credentials[0]: password is missing"),
        ([{"password": "s3cret"}], "bmc_credentials[0] needs either addresses: or host:"),
        ([{"host": "a", "addresses": "10.0.0.1", "password": "x"}], "bmc_credentials[0] needs either"),
        ([{"host": "a", "pasword": "s3cret"}], "bmc_credentials[0]: unknown key 'pasword'; known are addresses, host"),
        ([{"host": "a", "password": 123}], "bmc_credentials[0]: password must be text; put it in quotes"),
        ([{"addresses": "10.0.0.9-10.0.0.1", "password": "x"}], "bmc_credentials[0]: addresses '10.0.0.9-10.0.0.1' is"),
        ([{"addresses": "rack 1", "password": "x"}], "write 10.10.1.0/24, 10.10.1.11-10.10.1.18 or one address"),
        ([{"addresses": "10.0.0.0/33", "password": "x"}], "addresses '10.0.0.0/33' is not right"),
        ([{"host": "a", "password": "x"}] * 2, "bmc_credentials[1]: host a is already in bmc_credentials[0]"),
        (
            [{"addresses": "10.10.1.0/24", "password": "x"}, {"addresses": "10.10.1.0-10.10.1.255", "password": "y"}],
            "bmc_credentials[0] and [1] are equally exact for n1 (10.10.1.11); make one of them smaller",
        ),
    ],
)
def test_wrong_entries(rows: Any, said: str) -> None:
    found = error(rows)
    assert found.startswith("s.yml: ")
    assert said in found


def test_nothing_at_all() -> None:
    with pytest.raises(InputError, match=r"^s\.yml: bmc_username of n1 is missing; add it, or an entry in bmc_cred"):
        Credentials(None, "s.yml", {}).of("n1", "10.0.0.1")


def test_hosts_that_are_not_planned() -> None:
    known = Credentials({"bmc_credentials": [{"host": "n9", "password": "x"}]}, "s.yml", {})
    known.refuse_unknown_hosts(["n9"])
    with pytest.raises(InputError, match=r"^s\.yml: bmc_credentials\[0\]: host n9 is not in the fleet$"):
        known.refuse_unknown_hosts(["n1"])


def test_passwords_are_not_in_reprs() -> None:
    known = Credentials({**PLAIN, "bmc_credentials": [{"host": "n1", "password": "s3cret"}]}, "", {})
    assert "s3cret" not in repr(known) + repr(known.of("n1", "10.0.0.1")) + repr(known._hosts)
