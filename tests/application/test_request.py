"""The application file: what is wrong is named by its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from application.networks_here import EXAMPLE, application
from npuscope.application.request import read_application
from npuscope.errors import FileError

BASE = """
[[networks]]
name = "a"
model = "detector.tflite"
"""
WRONG = {
    "networks": "fps = 30",
    "fps": f"fps = 0{BASE}",
    "board": f'board = "dk"{BASE}',
    "colour": f"colour = 1{BASE}",
    "folder": f'folder = "x"{BASE}',
    "networks[0]": '[[networks]]\nname = "a"',
    "networks[0].name": '[[networks]]\nname = ""\nmodel = "a"',
    "networks[1].name": f"{BASE}{BASE}",
    "networks[0].repeat": f'{BASE}repeat = "box"',
    "networks[0].input_from": f'{BASE}input_from = "crop"',
    "networks[0].every": f"{BASE}every = 0",
    "order[0]": f'order = ["b"]{BASE}',
    "order[1]": f'order = ["a", "a"]{BASE}',
    "order": f'order = ["a"]{BASE}[[work]]\nname = "w"\nms = 1',
    "work[0].ms": f'{BASE}[[work]]\nname = "w"',
    "work[0].unit": f'{BASE}[[work]]\nname = "w"\nms = 1\nunit = "FPGA"',
    "buffers[0]": f'{BASE}[[buffers]]\nname = "b"',
    "buffers[0].align": f'{BASE}[[buffers]]\nname = "b"\nbytes = 3\nalign = 12',
    "buffers[0].memory": f'{BASE}[[buffers]]\nname = "b"\nbytes = 3\nmemory = "flash"',
    "loops.box.most": f"{BASE}[loops.box]\nmost = 0",
    "image_region": f'image_region = "RAM"{BASE}',
    "linker": f'linker = "none.ld"{BASE}',
}


@pytest.mark.parametrize("key", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, key: str) -> None:
    path = application(tmp_path, WRONG[key])
    with pytest.raises(FileError) as info:
        read_application(path)
    assert info.value.where == f"{path}: {key}"
    assert info.value.exit_code == 3


def test_steps_of_a_loop_follow_one_another(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    order = '"capture", "detector", "boxes", "crop", "tagger", "draw"'
    swapped = '"capture", "crop", "detector", "boxes", "tagger", "draw"'
    with pytest.raises(FileError, match="do not follow one another"):
        read_application(application(tmp_path, text.replace(order, swapped)))


def test_no_toml(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="not valid TOML"):
        read_application(application(tmp_path, "name = "))
