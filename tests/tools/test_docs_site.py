"""The site that `make docs` builds: every page in the menu or the index of rules, no other host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
pytest.importorskip("material", reason="the extra `docs` is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Strict: a link that leads nowhere, or a page without a place in the menu, ends it."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    ended = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        assert (site / path.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), path
    for name in ("readme", "changelog", "contributing", "security"):
        assert (site / f"{name}.html").is_file()


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loads = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)"')
    for path in site.rglob("*.html"):
        assert loads.findall(path.read_text(encoding="utf-8")) == [], path.name


def test_anchors_are_those_of_github(site: Path) -> None:
    text = (site / "cli.html").read_text(encoding="utf-8")
    assert 'id="what-happens-to-my-files"' in text
    assert 'id="options-of-all-verbs-that-take-a-model"' in text
