"""What mkdocs.yml needs beside its settings: the pages of the root folder, and GitHub's anchors.

`make docs` builds the site. A link that leads nowhere, or a page that the menu lacks, ends it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Pages beside docs/ that it links to, under their names in the site.
ROOT_PAGES = {name: f"{name.split('.')[0].lower()}.md"
    for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")}  # fmt: skip


def slug(heading: str, separator: str) -> str:
    """The anchor of a heading as GitHub makes it: pages are read there too."""
    plain = re.sub(r"<[^>]*>|[`*]|\[|\]\([^)]*\)", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, name in ROOT_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        text = text.replace("[LICENSE](LICENSE)", "LICENSE")
        files.append(File.generated(config, name, content=text))
    # Rules are one page each and reached from their index: the menu would hold nothing else.
    for file in files.documentation_pages():
        if file.src_uri.startswith("rules/") and file.name != "index":
            file.inclusion = type(file.inclusion).NOT_IN_NAV
    return files


def on_page_markdown(markdown: str, **page: Any) -> str:
    for source, name in ROOT_PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}").replace(
            f"]({source}", f"]({name}"
        )
    return markdown
