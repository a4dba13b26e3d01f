"""Write docs/rules: one page per rule and an index, from the rules' records.

python tools/write_rule_docs.py          # writes; pages of rules that are gone are removed
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from npuscope.advice.rule_pages import rule_pages  # noqa: E402

FOLDER = ROOT / "docs" / "rules"


def main() -> None:
    pages = rule_pages()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(pages)} pages in {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
