"""The pages that explain the house name files that exist, and the walk is the one that is gone."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "npuscope"
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
WALK = "## The path of a model file through `estimate`"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`([\w/.]+(?:\.py|\.toml|/))`", text)
    assert len(named) > 10
    places = (SOURCE, ROOT, SOURCE / "compiler")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def walk() -> list[str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text.partition(WALK)[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", part, re.M)


def test_the_walk_is_gone_in_its_order(tmp_path: Path) -> None:
    model = str(save(tmp_path, "net.tflite", to_tflite(mobilenet_like())))
    seen: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(SOURCE)):
            seen.setdefault(Path(file).relative_to(SOURCE).as_posix())

    main(["estimate", model, "--quiet"])  # imports run code too, which is no step of the walk
    sys.setprofile(note)
    try:
        assert main(["estimate", model, "--quiet"]) == 0
    finally:
        sys.setprofile(None)
    files = walk()
    assert 8 <= len(files) <= 12
    places = [list(seen).index(file) for file in files]
    assert places == sorted(places), files
