"""Output folders as a whole: what belongs together, what is missing, and where looking ends."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from models import mobilenet_like, to_tflite
from npuscope.identify import folder as folder_module
from npuscope.identify.folder import Folder, identity_of, network_of, recognise
from npuscope.identify.path import identify
from report_texts import CONSOLE, NEW_REPORT

MODEL = to_tflite(mobilenet_like())
MD5 = hashlib.md5(MODEL).hexdigest()
IMAGE = bytes(range(1, 200))
NETWORK_C = """/* global pool 8 is 56.16 KB */
/* index=8 file postfix=xSPI2 name=octoFlash offset=0x71000000 size=8 READ_ONLY THROUGHPUT=MID */
/* global pool 7 is ? */
/* index=7 file postfix=xSPI1 name=hyperRAM offset=0x90000000 size=8 READ_ONLY THROUGHPUT=MID */
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_tiny(void) {
  static const EpochBlock_ItemTypeDef array[] = { {
    .end_epoch_block = NULL,
    .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_blob } }; }
"""
BLOBS = "static const uint64_t _ec_blob_tiny_1[] = { 0x00000001ca057a7aULL };\n"


def description(md5: str = MD5, size: int = len(IMAGE)) -> str:
    tool = {"input_model": {"model_files": [{"name": "net.tflite", "signature": f"0x{md5}"}]}}
    pool = {"id": 9, "name": "octoFlash", "fname": "atonbuf.xSPI2.raw", "used_size_bytes": size}
    record: dict[str, Any] = {
        "json_schema_version": "2.0",
        "environment": {"tools": [tool]},
        "graphs": [{"nodes": []}],
        "buffers": [{"mpool_id": 9, "is_param": True}, {"mpool_id": 1, "is_param": False}],
        "memory_pools": [pool, {"id": 1, "name": "npuRAM5", "fname": "atonbuf.AXISRAM5.raw"}],
    }
    return json.dumps(record)


def written(root: Path, **files: str | bytes) -> Folder:
    """A folder of these files; __ in a name stands for a dot."""
    for name, content in files.items():
        path = root / name.replace("__", ".").replace("SLASH", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return recognise(root)


def whole(root: Path) -> Folder:
    return written(
        root,
        net__tflite=MODEL,
        tiny__c=NETWORK_C,
        tiny_ecblobs__h=BLOBS,
        tiny_c_info__json=description(),
        tiny_generate_report__txt=CONSOLE.replace("0123456789abcdef" * 2, MD5) + NEW_REPORT,
        tiny_atonbuf__xSPI2__raw=IMAGE,
        LICENSE__txt="free",
    )


def test_a_whole_folder(tmp_path: Path) -> None:
    found = whole(tmp_path)
    assert found.missing == ()
    assert found.networks == ("tiny",)
    assert found.others == ("LICENSE.txt",)
    assert found.together == (
        "network 'tiny': tiny.c, tiny_atonbuf.xSPI2.raw, tiny_c_info.json, tiny_ecblobs.h, "
        "tiny_generate_report.txt",
        "tiny_c_info.json was made from net.tflite: same MD5",
        "tiny_generate_report.txt was made from net.tflite: same MD5",
        "tiny_atonbuf.xSPI2.raw is the image of octoFlash in tiny_c_info.json: same size",
    )


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    found = written(tmp_path, tiny__c=NETWORK_C, tiny_c_info__json=description())
    assert found.missing == (
        f"tiny_c_info.json: its model net.tflite (MD5 {MD5}) is missing",
        "tiny.c: the image of octoFlash (atonbuf.xSPI2.raw) is missing",
        "tiny_c_info.json: the image of octoFlash (atonbuf.xSPI2.raw) is missing",
        "tiny.c: its blobs (tiny_ecblobs.h) are missing",
    )


def test_a_model_that_several_files_name_is_missed_once(tmp_path: Path) -> None:
    found = written(tmp_path, a_c_info__json=description(), b_c_info__json=description())
    assert found.missing[0] == (
        f"a_c_info.json, b_c_info.json: their model net.tflite (MD5 {MD5}) is missing"
    )


def test_an_image_of_another_build_is_named(tmp_path: Path) -> None:
    found = written(
        tmp_path, net__tflite=MODEL, c_info__json=description(size=77), atonbuf__xSPI2__raw=IMAGE
    )
    assert found.missing == ("c_info.json: the image of octoFlash should have 77 bytes, found 199",)


@pytest.mark.parametrize(
    "name", ["atonbuf.xSPI2.raw", "x_atonbuf.xSPI2.raw", "network_data.xSPI2.bin"]
)
def test_an_image_goes_by_several_names(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(IMAGE)
    found = written(tmp_path, net__tflite=MODEL, c_info__json=description())
    assert found.missing == ()
    assert f"{name} is the image of octoFlash in c_info.json: same size" in found.together


def test_the_image_beside_the_file_comes_first(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        aSLASHatonbuf__xSPI2__raw=IMAGE,
        bSLASHatonbuf__xSPI2__raw=IMAGE,
        bSLASHc_info__json=description(),
    )
    assert (
        "b/atonbuf.xSPI2.raw is the image of octoFlash in b/c_info.json: same size"
        in found.together
    )


def test_files_that_cannot_be_read_are_noted(tmp_path: Path) -> None:
    found = written(tmp_path, broken__json="{")
    assert found.others == ("broken.json",)
    assert found.notes[0].startswith("broken.json: is not valid JSON")


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.tflite").write_bytes(MODEL)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "also.tflite").write_bytes(MODEL)
    (inside / "net.tflite").write_bytes(MODEL)
    os.symlink(tmp_path / "secret.tflite", inside / "out.tflite")
    os.symlink(tmp_path / "more", inside / "folder")
    os.symlink(inside, inside / "loop")
    os.symlink(inside / "net.tflite", inside / "within.tflite")
    os.symlink(inside / "nothing", inside / "dangling")
    assert [file.path for file in recognise(inside).files] == ["net.tflite", "within.tflite"]


def test_there_are_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_FILES", 3)
    monkeypatch.setattr(folder_module, "MAX_DEPTH", 1)
    found = written(tmp_path, a="1", b="2", c="3", dSLASHe="4", dSLASHfSLASHg="5")
    assert len(found.others) == 3
    assert found.notes[-1] == "only the first 3 files were searched"
    monkeypatch.setattr(folder_module, "MAX_FILES", 9)
    found = recognise(tmp_path)
    assert found.others == ("a", "b", "c", "d/e")
    assert found.notes == ("d: folders below it are not searched",)


def test_the_identity_of_a_folder(tmp_path: Path) -> None:
    whole(tmp_path)
    found = identify(tmp_path)
    assert found == identity_of(recognise(tmp_path))
    assert (found.kind, found.ignored) == ("folder", ("LICENSE.txt",))
    assert found.summary["kinds"]["network_c"] == 1
    json.dumps(found.summary, allow_nan=False)


@pytest.mark.parametrize(
    ("name", "kind", "network"),
    [
        ("network_c_info.json", "c_info", "network"),
        ("c_info.json", "c_info", ""),
        ("face_analyze_report.txt", "generate_report", "face"),
        ("face_generate_report.txt", "generate_report", "face"),
        ("atonbuf.xSPI2.raw", "raw_image", ""),
        ("net_atonbuf.xSPI2.raw", "raw_image", "net"),
        ("net.tflite", "tflite", ""),
    ],
)
def test_names_of_networks(name: str, kind: str, network: str) -> None:
    assert network_of(name, kind) == network
