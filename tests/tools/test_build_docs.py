"""The site that `make docs` makes: every page, every link, and a search that finds."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "tools" / "build_docs.py"
    spec = importlib.util.spec_from_file_location("build_docs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_docs"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tool: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made = tool.Site(tool.pages())
    made.write(folder)
    assert made.broken == []
    return folder


def test_every_page_is_there(site: Path) -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        page = site / path.relative_to(ROOT / "docs").with_suffix(".html")
        assert page.is_file(), path
    for name in ("index", "api", "cli", "tutorial", "capabilities", "rules/index", "readme"):
        assert (site / f"{name}.html").is_file()


def test_every_link_leads_to_a_page_and_a_heading(site: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    ids = {path.resolve(): set(re.findall(r'id="([^"]+)"', text)) for path, text in texts.items()}
    followed = 0
    for path, text in texts.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if "://" in link or not re.search(r"\.(html|css|js|png)(#|$)|^#", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path.resolve()
            assert target.is_file(), (path.name, link)
            assert not anchor or anchor in ids[target], (path.name, link)
            followed += 1
    assert followed > 1000


def test_the_search_knows_every_part(site: Path) -> None:
    text = (site / "pages.js").read_text(encoding="utf-8")
    rows = json.loads(text.removeprefix("const PAGES = ").rstrip(";\n"))
    found = [row for row in rows if "epoch controller" in row[3]]
    assert found and all((site / row[0].partition("#")[0]).is_file() for row in rows)


def test_a_link_that_leads_nowhere_is_told(tool: ModuleType, tmp_path: Path) -> None:
    pages = [
        tool.Page(tool.PurePosixPath("index.md"), "# A\n\n[b](b.md) [c](a.md#c) [d](a.md#d)\n"),
        tool.Page(tool.PurePosixPath("a.md"), "# A\n\n## D\n"),
    ]
    made = tool.Site(pages)
    made.html(pages[0])
    assert made.broken == ["index.md: b.md", "index.md: a.md#c"]
