"""The documentation as a site of plain files: pages, a menu, and a search that needs no server.

python tools/build_docs.py build/docs    # or `make docs`

Markdown is read by markdown-it, which rich brings along. A link that leads nowhere is an error.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
# Pages beside docs/ that it links to, under their names in the site.
OTHERS = {"README.md": "readme.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md"}  # fmt: skip
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+\.md)\)")
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title} · npuscope</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{root}site.css"></head>
<body><nav><a class="home" href="{root}index.html">npuscope</a>
<input id="search" type="search" placeholder="search" aria-label="search"><ul id="hits"></ul>
{menu}</nav>
<main>{body}</main>
<script>const ROOT = "{root}";</script><script src="{root}pages.js"></script>
<script src="{root}search.js"></script></body></html>
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its path in the site, still ending in .md."""

    path: PurePosixPath
    text: str

    @property
    def address(self) -> str:
        return str(self.path.with_suffix(".html"))

    @property
    def title(self) -> str:
        first = re.search(r"^# (.+)$", self.text, re.M)
        return plain(first[1]) if first else self.path.stem


def plain(text: str) -> str:
    """A heading without marks of Markdown."""
    return re.sub(r"[`*]|\[|\]\([^)]*\)", "", text).strip()


def slug(text: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", plain(text).lower()).replace(" ", "-")


def pages() -> list[Page]:
    docs = ROOT / "docs"
    found = [Page(PurePosixPath(path.relative_to(docs).as_posix()), path.read_text("utf-8"))
        for path in sorted(docs.rglob("*.md"))]  # fmt: skip
    others = (
        Page(PurePosixPath(name), (ROOT / source).read_text("utf-8"))
        for source, name in OTHERS.items()
    )
    return [*found, *others]


class Site:
    def __init__(self, made: list[Page]) -> None:
        self.pages = {str(page.path): page for page in made}
        self.markdown = MarkdownIt("commonmark").enable("table")
        self.anchors = {name: self._anchors(page) for name, page in self.pages.items()}
        self.broken: list[str] = []

    def _anchors(self, page: Page) -> set[str]:
        return {slug(heading) for _, heading in headings(self.markdown.parse(page.text))}

    def write(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for page in self.pages.values():
            target = folder / page.address
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.html(page), encoding="utf-8")
        shutil.copytree(ROOT / "docs" / "images", folder / "images")
        for name in ("site.css", "search.js"):
            shutil.copy(Path(__file__).parent / "docs_site" / name, folder / name)
        index = json.dumps([row for page in self.pages.values() for row in self._index(page)])
        (folder / "pages.js").write_text(f"const PAGES = {index};\n", encoding="utf-8")

    def html(self, page: Page) -> str:
        root = "../" * (len(page.path.parts) - 1)
        tokens = self.markdown.parse(page.text)
        for token in tokens:
            self._link(page, token)
        for place, heading in headings(tokens):
            tokens[place].attrSet("id", slug(heading))
        body = self.markdown.renderer.render(tokens, self.markdown.options, {})
        title = html.escape(page.title)
        return _PAGE.format(title=title, root=root, menu=self._menu(page, root), body=body)

    def _link(self, page: Page, token: Token) -> None:
        for child in token.children or ():
            for name in ("href", "src"):
                told = child.attrGet(name)
                if isinstance(told, str) and "://" not in told and not told.startswith("mailto:"):
                    child.attrSet(name, self._target(page, told))

    def _target(self, page: Page, told: str) -> str:
        """Where a link of Markdown leads in the site."""
        path, _, anchor = told.partition("#")
        here = page.path.parent if path else page.path
        place = _normal(here / path) if path else str(page.path)
        place = OTHERS.get(place.removeprefix("../"), place)
        if page.path.name in OTHERS.values():
            place = place.removeprefix("docs/")
        known = place in self.pages or (ROOT / "docs" / place).is_file()
        if not known or (anchor and anchor not in self.anchors.get(place, ())):
            if (ROOT / "docs" / place).exists() or (ROOT / place).exists():
                return told  # a source file: it is read in the repository
            self.broken.append(f"{page.path}: {told}")
        up = "../" * (len(page.path.parts) - 1)
        target = self.pages[place].address if place in self.pages else place
        return f"{up}{target}" + (f"#{anchor}" if anchor else "")

    def _menu(self, page: Page, root: str) -> str:
        """In the order of docs/index.md; rules have a list of their own."""
        named = list(dict.fromkeys(_LINK.findall(self.pages["index.md"].text)))
        rules = [name for name in self.pages if name.startswith("rules/") and name not in named]
        opened = " open" if str(page.path).startswith("rules/") else ""
        rest = [name for name in OTHERS.values() if name in self.pages]
        return (
            f"<ul>{self._items([*named, *rest], page, root)}</ul>"
            f"<details{opened}><summary>Rules</summary>"
            f"<ul>{self._items(rules, page, root)}</ul></details>"
        )

    def _items(self, names: list[str], page: Page, root: str) -> str:
        rows = []
        for name in (name for name in names if name in self.pages):
            here = ' class="here"' if name == str(page.path) else ""
            one = self.pages[name]
            title = one.path.stem if name.startswith("rules/") else one.title
            rows.append(f'<li{here}><a href="{root}{one.address}">{html.escape(title)}</a></li>')
        return "".join(rows)

    def _index(self, page: Page) -> Iterator[tuple[str, str, str, str]]:
        """(address, title, part, words) of every part of a page."""
        parts = re.split(r"^(#{2,3} .+)$", page.text, flags=re.M)
        yield page.address, page.title, "", parts[0].lower()
        for heading, text in zip(parts[1::2], parts[2::2], strict=True):
            name = plain(heading.lstrip("# "))
            yield f"{page.address}#{slug(name)}", page.title, name, f"{name} {text}".lower()


def headings(tokens: list[Token]) -> Iterator[tuple[int, str]]:
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            yield place, tokens[place + 1].content


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    site = Site(pages())
    site.write(folder)
    print(f"{len(site.pages)} pages in {folder}")
    for broken in site.broken:
        print(f"leads nowhere: {broken}", file=sys.stderr)
    return 1 if site.broken else 0


if __name__ == "__main__":
    sys.exit(main())
