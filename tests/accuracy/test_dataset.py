"""Samples and labels of every kind from files."""

from __future__ import annotations

import json
import struct
import tracemalloc
import wave
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from npuscope.accuracy.dataset import Dataset, open_dataset
from npuscope.accuracy.inputs import NetworkInput, likely_form
from npuscope.accuracy.labels import labels_of
from npuscope.accuracy.pictures import FORMS, form_text, named_form
from npuscope.errors import FileError, UsageError
from npuscope.graph.model import Quant
from npuscope.structs import replace

QUANT = Quant((0.5,), (-10,))
VECTOR = NetworkInput("x", (1, 4), np.dtype(np.int8), QUANT)
IMAGE = NetworkInput("x", (1, 4, 4, 3), np.dtype(np.int8), Quant((1 / 255,), (-128,)))
FORM = FORMS["unit"]


def values(data: Dataset, place: int = 0) -> list[float]:
    return data.read(place, FORM, None)["x"].ravel().tolist()


def test_raw_inputs_are_integers_of_the_network(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(np.array([-10, 0, 10, 20], np.int8).tobytes())
    assert values(open_dataset(tmp_path, [VECTOR], None)) == [0, 5, 10, 15]
    (tmp_path / "a.bin").write_bytes(b"123")
    with pytest.raises(FileError, match="has 3 bytes, but the input"):
        values(open_dataset(tmp_path, [VECTOR], None))


def test_sounds_are_cut_and_filled(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as sound:
        sound.setparams((2, 2, 16000, 0, "NONE", ""))
        sound.writeframes(np.array([16384, 0, -32768, -32768], "<i2").tobytes())
    assert values(open_dataset(tmp_path, [VECTOR], None)) == [0.25, -1, 0, 0]
    with pytest.raises(UsageError, match="is not a sound"):
        values(open_dataset(tmp_path, [IMAGE], None))
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(FileError, match="cannot be read as a sound"):
        values(open_dataset(tmp_path, [VECTOR], None))


def test_tables_hold_labels_in_the_last_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c,d,label\n1,2,3,4,cat\n5,6,7,8,dog\n")
    data = open_dataset(tmp_path / "a.csv", [VECTOR], None)
    assert values(data, 1) == [5, 6, 7, 8]
    labels = labels_of(data, None, "classification")
    assert labels is not None and labels.truths == (0, 1) and labels.classes == ("cat", "dog")
    (tmp_path / "b.csv").write_text("1,2,3,4\n1,2,3\n")
    with pytest.raises(FileError, match="line 2 has 3 values, expected 4"):
        open_dataset(tmp_path / "b.csv", [VECTOR], None)
    (tmp_path / "c.csv").write_text("a,b,c,d\n1,2,x,4\n")
    with pytest.raises(FileError, match="holds more than numbers"):
        open_dataset(tmp_path / "c.csv", [VECTOR], None)


def test_arrays_with_channels_first_are_turned(tmp_path: Path) -> None:
    planes = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
    np.save(tmp_path / "a.npy", planes)
    data = open_dataset(tmp_path / "a.npy", [IMAGE], None)
    assert values(data) == planes[0].transpose(1, 2, 0).ravel().tolist()
    np.save(tmp_path / "b.npy", np.zeros((2, 5, 5), np.float32))
    with pytest.raises(FileError, match=r"a sample has the shape \(5, 5\)"):
        values(open_dataset(tmp_path / "b.npy", [IMAGE], None))


def test_a_limit_takes_samples_of_every_class(tmp_path: Path) -> None:
    for number in range(10):
        folder = tmp_path / ("a" if number < 5 else "b")
        folder.mkdir(exist_ok=True)
        np.save(folder / f"{number}.npy", np.zeros(4, np.float32))
    data = open_dataset(tmp_path, [VECTOR], 4)
    assert [Path(name).parent.name for name in data.names] == ["a", "a", "b", "b"]


def test_a_limit_on_a_table_keeps_the_lines_apart(tmp_path: Path) -> None:
    lines = [f"{n},{n},{n},{n},{'cat' if n < 3 else 'dog'}" for n in range(6)]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,c,d,label", *lines]))
    more = open_dataset(tmp_path / "a.csv", [VECTOR], 10)  # than there are
    assert [values(more, place)[0] for place in range(len(more))] == [0, 1, 2, 3, 4, 5]
    some = open_dataset(tmp_path / "a.csv", [VECTOR], 2)
    assert [values(some, place)[0] for place in range(len(some))] == [0, 3]
    assert some.names == ("line 2", "line 5")


def test_empty_and_missing_data(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no samples"):
        open_dataset(tmp_path, [VECTOR], None)
    with pytest.raises(FileError):
        open_dataset(tmp_path / "none.npz", [VECTOR], None)


def pictures(folder: Path, count: int = 2) -> Dataset:
    for number in range(count):
        Image.new("RGB", (20, 10)).save(folder / f"p{number}.png")
    return open_dataset(folder, [IMAGE], None)


def test_boxes_of_coco_and_yolo_are_parts_of_the_picture(tmp_path: Path) -> None:
    data = pictures(tmp_path)
    coco = {
        "images": [{"id": n, "file_name": f"p{n}.png", "width": 20, "height": 10} for n in (0, 1)],
        "annotations": [{"image_id": 1, "category_id": 7, "bbox": [5, 2, 10, 4]}],
        "categories": [{"id": 3, "name": "cat"}, {"id": 7, "name": "dog"}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(coco))
    labels = labels_of(data, tmp_path / "boxes.json", "detection")
    assert labels is not None and labels.classes == ("cat", "dog")
    assert len(labels.truths[0]) == 0
    assert labels.truths[1].tolist() == [pytest.approx([0.25, 0.2, 0.75, 0.6, 1])]
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "p1.txt").write_text("1 0.5 0.4 0.5 0.4\n")
    own = labels_of(data, texts, "detection")
    assert own is not None
    assert own.truths[1].tolist() == [pytest.approx([0.25, 0.2, 0.75, 0.6, 1])]
    (texts / "p1.txt").write_text("one two\n")
    with pytest.raises(FileError, match="is not a list of boxes"):
        labels_of(data, texts, "detection")


@pytest.mark.parametrize("text", ["[]", "{}", '{"images": 3, "annotations": []}', "no json"])
def test_other_json_is_refused(tmp_path: Path, text: str) -> None:
    data = pictures(tmp_path)
    (tmp_path / "boxes.json").write_text(text)
    with pytest.raises(FileError, match="COCO"):
        labels_of(data, tmp_path / "boxes.json", "detection")


def test_masks_belong_to_pictures_by_name(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    data = pictures(tmp_path / "pictures")
    masks = tmp_path / "masks"
    masks.mkdir()
    Image.fromarray(np.array([[0, 1], [2, 255]], np.uint8)).save(masks / "p0.png")
    with pytest.raises(FileError, match=r"1 of 2 samples have no label: p1.png is the first"):
        labels_of(data, masks, "segmentation")
    np.save(masks / "p1.npy", np.ones((2, 2), np.int16))
    labels = labels_of(data, masks, "segmentation")
    assert labels is not None and labels.truths[0].tolist() == [[0, 1], [2, 255]]


def test_names_of_forms_come_back() -> None:
    for text in (*FORMS, "unit,bgr", "mean=127.5,std=128"):
        assert form_text(named_form(text)) == text
    assert named_form("mean=127.5,std=128").factor == 1
    for text in ("units", "mean=x", "std=0", "mean=1,size=3"):
        with pytest.raises(UsageError):
            named_form(text)


@pytest.mark.parametrize(
    ("scale", "zero", "name"),
    [(1 / 255, -128, "unit"), (2 / 255, 0, "signed"), (1.0, -128, "uint8"), (0.0205, -14, "mean")],
)
def test_the_range_of_the_input_tells_the_form(scale: float, zero: int, name: str) -> None:
    network = NetworkInput("x", (1, 4, 4, 3), np.dtype(np.int8), Quant((scale,), (zero,)))
    assert form_text(likely_form(network)[0]).startswith(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,label\n1,2,3,4\n5\n", "line 2 has 4 values, expected 5"),
        ("a,b,c,d,label\n1,2,3,4,x\n1\n", "line 3 has 1 values, expected 5"),
        ("1,2,3,4\n1,2,3," + "4" * 200_000, "is not a table with commas"),
    ],
)
def test_lines_of_other_lengths(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FileError, match=message):
        open_dataset(tmp_path / "a.csv", [VECTOR], None)


@pytest.mark.parametrize(
    ("label", "task"),
    [("0x", "regression"), ("inf", "regression"), ("9" * 400, "classification"),
     ("9" * 400, "regression"), ("4294967296", "classification")],
)  # fmt: skip
def test_labels_that_are_no_numbers(tmp_path: Path, label: str, task: str) -> None:
    (tmp_path / "a.csv").write_text("1,2,3,4\n5,6,7,8\n")
    (tmp_path / "labels.csv").write_text(f"1\n{label}\n")
    data = open_dataset(tmp_path / "a.csv", [VECTOR], None)
    with pytest.raises(FileError, match="the label"):
        labels_of(data, tmp_path / "labels.csv", task)


def grown_bytes(read: Callable[[], object]) -> int:
    """How much more memory Python and NumPy had at most while it was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(FileError):
            read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_archive_that_unpacks_to_much(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(
            member, {"descr": "|i1", "fortran_order": False, "shape": (1 << 30,)}
        )
        for _ in range(576):
            member.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    assert grown_bytes(lambda: open_dataset(path, [VECTOR], None)) < 1 << 24


def test_a_header_that_claims_more_than_there_is(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 28, 4)}
        )
    assert grown_bytes(lambda: open_dataset(path, [VECTOR], None)) < 1 << 24


def test_a_small_picture_of_many_pixels(tmp_path: Path) -> None:
    """Claimed in the head; and narrow ones, which a crop makes large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 12_000, 12_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"0" * 99))
    (tmp_path / "a.png").write_bytes(data + chunk(b"IEND", b""))
    form = FORM
    large = open_dataset(tmp_path, [IMAGE], None)
    with pytest.raises(FileError, match="12,000 x 12,000 pixels"):
        large.read(0, form, None)
    with pytest.raises(FileError, match="12,000 x 12,000 pixels"):
        labels_of(large, tmp_path, "segmentation")
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    Image.new("L", (30_000_000, 1)).save(narrow / "a.png")
    with pytest.raises(FileError, match="too narrow"):
        open_dataset(narrow, [IMAGE], None).read(0, replace(form, resize="crop"), None)
