"""doctor tells what is there, says so when something is missing, and changes nothing."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from npuscope import installed
from npuscope.cli.main import main
from npuscope.installed import EXTRAS, REQUIRED, InstalledPackage
from npuscope.version import __version__

Capture = pytest.CaptureFixture[str]
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def pinned(lines: list[str]) -> dict[str, str]:
    return dict(re.fullmatch(r"([\w-]+)[>=]=([\d.]+)", line).groups() for line in lines)  # type: ignore


def without(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """As if these packages had other versions; an empty one is not installed."""

    def lookup(name: str) -> str:
        found = versions.get(name.replace("-", "_"), "9999")
        if not found:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(installed, "version", lookup)


def test_the_tables_are_those_of_the_project() -> None:
    assert pinned(PROJECT["dependencies"]) == REQUIRED
    groups = PROJECT["optional-dependencies"]
    assert {extra.name for extra in EXTRAS} == set(groups) - {"docs", "test", "all"}
    assert all(pinned(groups[extra.name]) == extra.packages for extra in EXTRAS)


def test_here_it_is_ready(capsys: Capture) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"npuscope {__version__} is ready; extras: board ")
    assert f"  {'numpy':<16} {version('numpy')}\n" in out
    assert sys.executable in out


def test_a_missing_extra_says_what_it_gives_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    without(monkeypatch, unicorn="", onnxruntime="1.2.3")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "extras: board no, reference no, sweep yes" in out.splitlines()[0]
    assert "unicorn missing (2.1.4 or newer)" in out
    assert "onnxruntime 1.2.3, too old: 1.24.1 or newer is needed" in out
    assert "    get it: pip install 'npuscope[board]'\n" in out
    assert "pip install 'npuscope[plan]'" not in out


def test_a_missing_package_is_the_answer(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    without(monkeypatch, tflite="", numpy="1.9")
    assert main(["doctor", "-q"]) == 0
    out = capsys.readouterr().out
    wanted = "is not ready: pip install 'numpy>=2.1' 'tflite>=2.18'\n"
    assert out == f"npuscope {__version__} {wanted}"


@pytest.mark.parametrize(
    ("found", "fine"),
    [("1.26", True), ("1.26.0rc1", True), ("1.3", False), ("2", True), ("", False)],
)
def test_versions(found: str, fine: bool) -> None:
    assert InstalledPackage("numpy", found, "1.26").is_fine == fine


def test_json_and_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    tool = tmp_path / "google-chrome"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    paths = {program["name"]: program["path"] for program in found["programs"]}
    assert (found["schema"], found["ready"]) == ("npuscope/doctor/1", True)
    assert paths["chromium"] == str(tool)
    assert paths["qemu-system-arm"] is None


def test_the_cache_is_measured_and_not_made(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    main(["doctor"])
    assert capsys.readouterr().out.endswith(f"cache     {tmp_path}/npuscope: empty\n")
    assert not list(tmp_path.iterdir())
    (tmp_path / "npuscope" / "zig").mkdir(parents=True)
    (tmp_path / "npuscope" / "zig" / "a.o").write_bytes(bytes(3 << 20))
    (tmp_path / "npuscope" / "gone").symlink_to(tmp_path / "nowhere")
    main(["doctor"])
    assert (
        "npuscope: 1 file, 3.0 MiB; at most 256 MiB and 90 days are kept; it may be"
        in capsys.readouterr().out
    )
