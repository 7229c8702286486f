"""The pinned operating system: where it is looked up, and whether MAAS has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstlight.errors import InputError
from firstlight.maas.images import COMPONENT, Pin, find_images, pin_of
from firstlight.versions import ANY, load_versions

NOBLE = {"series": "noble", "hwe_kernel": "ga-24.04", "release": "ubuntu-24.04", "kernel_version": "6.8.0-49-generic"}
# as a region lists them: a resource for each kernel of an Ubuntu image
RESOURCES = [
    {"name": "ubuntu/jammy", "architecture": "amd64/ga-22.04", "type": "Synced", "subarches": "generic,ga-22.04"},
    {"name": "ubuntu/noble", "architecture": "amd64/ga-24.04", "type": "Synced", "subarches": "generic,ga-24.04"},
    {"name": "ubuntu/noble", "architecture": "amd64/hwe-24.04", "type": "Synced"},
    {"name": "ubuntu/noble", "architecture": "arm64/ga-24.04", "type": "Synced"},
    {"name": "bookworm", "architecture": "amd64/generic", "type": "Uploaded"},
    {"name": "grub-efi-signed/uefi", "architecture": "amd64/generic", "type": "Synced"},
]


def test_versions_pin_what_the_site_does_not_set():
    assert pin_of(NOBLE, {}.get) == Pin("noble", "ga-24.04", "ubuntu-24.04", "6.8.0-49-generic")
    assert pin_of(NOBLE, {"install_hwe_kernel": "hwe-24.04"}.get).hwe_kernel == "hwe-24.04"
    assert pin_of(NOBLE, {"install_hwe_kernel": ""}.get).hwe_kernel == ""


def test_a_series_of_the_sites_makes_the_rest_void():
    assert pin_of(NOBLE, {"install_distro_series": "custom/mine"}.get) == Pin("custom/mine")
    both = {"install_distro_series": "jammy", "install_hwe_kernel": "ga-22.04"}
    assert pin_of(NOBLE, both.get) == Pin("jammy", "ga-22.04")


def test_a_profile_and_an_architecture_have_their_own(tmp_path):
    path = tmp_path / "versions.yml"
    path.write_text(
        "versions:\n  operating_system:\n    any:\n      any: {series: noble, hwe_kernel: ga-24.04}\n"
        "      aarch64: {hwe_kernel: hwe-24.04}\n"
        "overrides:\n  xe9680:\n    operating_system: {any: {any: {series: custom/gpu, hwe_kernel: ''}}}\n"
    )
    versions = load_versions(path, ["xe9680"], [])
    found = {
        (architecture, profile): pin_of(versions.settings(COMPONENT, ANY, architecture, profile), {}.get)
        for architecture in ("x86_64", "aarch64")
        for profile in ("xe9680", "other")
    }
    assert found == {
        ("x86_64", "other"): Pin("noble", "ga-24.04"),
        ("aarch64", "other"): Pin("noble", "hwe-24.04"),
        ("x86_64", "xe9680"): Pin("custom/gpu"),
        ("aarch64", "xe9680"): Pin("custom/gpu"),
    }


def test_the_shipped_pin_is_right():
    versions = load_versions(Path(__file__).parents[3] / "inventory" / "versions.yml")
    assert pin_of(versions.settings(COMPONENT, ANY, "x86_64"), {}.get).series == "noble"


@pytest.mark.parametrize(
    ("settings", "site", "said"),
    [
        ({}, {}, "install_distro_series is not set, and versions.yml pins no operating_system"),
        ({"hwe_kernel": "ga-24.04"}, {}, "install_distro_series is not set"),
        ({"serie": "noble"}, {}, "unknown setting 'serie'; known are series, hwe_kernel, release, kernel_version"),
        ({"series": 24.04}, {}, "versions.yml: operating_system.series is 24.04; write e.g. noble"),
        ({}, {"install_distro_series": 24.04}, "install_distro_series is 24.04; write e.g. noble"),
        ({}, {"install_distro_series": "a/b/c"}, "install_distro_series is 'a/b/c'"),
        (NOBLE, {"install_hwe_kernel": "a b"}, "install_hwe_kernel is 'a b'; write e.g. ga-24.04"),
        ({**NOBLE, "release": "24.04"}, {}, "versions.yml: operating_system.release is '24.04'; write e.g. ubuntu-24"),
        ({**NOBLE, "kernel_version": True}, {}, "operating_system.kernel_version is True"),
    ],
)
def test_a_wrong_pin_is_named(settings, site, said):
    with pytest.raises(InputError) as caught:
        pin_of(settings, site.get)
    assert said in str(caught.value)


def test_each_host_gets_its_image_for_its_architecture():
    wanted = {
        "a": (Pin("noble", "hwe-24.04"), "amd64/generic"),
        "b": (Pin("ubuntu/noble", "ga-24.04"), "arm64/generic"),
        "c": (Pin("bookworm"), "amd64/generic"),
        "d": (Pin("custom/bookworm", "hwe-22.04"), "amd64/generic"),
    }
    found = {"a": "ubuntu/noble", "b": "ubuntu/noble", "c": "custom/bookworm", "d": "custom/bookworm"}
    assert find_images(RESOURCES, wanted) == found


@pytest.mark.parametrize(
    ("pin", "architecture", "said"),
    [
        (Pin("focal"), "amd64/generic", "MAAS has no image focal for amd64 (n1); it has: custom/bookworm, grub-efi"),
        (Pin("jammy"), "arm64/generic", "MAAS has no image jammy for arm64 (n1); it has: ubuntu/noble"),
        (Pin("noble"), "ppc64el/generic", "no image noble for ppc64el (n1); it has: none"),
        (Pin("custom/noble"), "amd64/generic", "no image custom/noble for amd64"),
        (Pin("noble", "hwe-24.04"), "arm64/generic", "no kernel hwe-24.04 of ubuntu/noble for arm64 (n1); it has: ga-"),
    ],
)
def test_what_maas_lacks_is_named_with_what_it_has(pin, architecture, said):
    with pytest.raises(InputError) as caught:
        find_images(RESOURCES, {"n1": (pin, architecture)})
    assert said in str(caught.value)


def test_a_region_without_images_and_one_with_too_many():
    with pytest.raises(InputError, match="it has: none"):
        find_images([], {"n1": (Pin("noble"), "amd64/generic")})
    many = [{"name": f"custom/i{n:03d}" + "x" * 90, "architecture": "amd64/generic"} for n in range(400)]
    with pytest.raises(InputError, match="and 388 more") as caught:
        find_images(many, {"n1": (Pin("noble"), "amd64/generic")})
    assert len(str(caught.value)) < 1000
