"""playbooks/discover.yml against simulated BMCs: what it reads from the site's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from maas_product_lab import ProductLab
from maas_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    lab = ProductLab(tmp_path, machines=1)
    yield Site(lab, tmp_path)
    lab.stop()


def test_firmware_must_be_exactly_that_of_versions_yml(site: Site) -> None:
    path = site.folder / "versions.yml"
    site.write(versions_file=str(path))

    def pin(**versions: str) -> None:
        by_profile = {"xe9680": {"firmware": {"any": {"any": versions}}}}
        path.write_text(yaml.safe_dump({"versions": {}, "overrides": by_profile}))

    pin(**{"CPLD.Embedded.1": "1.3.0"})
    site.good("discover")
    assert site.findings("r1-n01") == {}
    pin(**{"CPLD.Embedded.1": "1.4.0", "gpu_vbios": "96.00.74.00.01"})
    site.play("discover")
    assert site.findings("r1-n01") == {"firmware.version": "version 1.3.0; versions.yml has 1.4.0"}
    pin(bios="")
    path.write_text(path.read_text().replace("any:\n", "debian-12:\n", 1))
    status, screen = site.play("discover")
    assert status != 0 and "Traceback" not in screen
    assert f"{path}:" in screen and "belongs under firmware: any: any" in screen
