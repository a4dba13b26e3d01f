"""Calibration data from files, folders and seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuscope.accuracy.pictures import ImageForm, channels_first, image_form
from npuscope.errors import FileError, ModelError, UsageError
from npuscope.quantizing.samples import Border, load_samples

FORM = ImageForm()
BORDER = Border("image", (1, 3, 4, 5), np.dtype(np.float32))
OTHER = Border("state", (1, 2), np.dtype(np.float32))


def test_every_fourth_sample_is_held_out(tmp_path: Path) -> None:
    data = np.arange(9, dtype=np.float32).reshape(9, 1, 1, 1) * np.ones((1, 3, 4, 5), np.float32)
    np.save(tmp_path / "x.npy", data)
    found = load_samples(tmp_path / "x.npy", [BORDER], FORM, 100, 0)
    assert [float(s["image"].max()) for s in found.held_out] == [0, 4, 8]
    assert [float(s["image"].max()) for s in found.calibration] == [1, 2, 3, 5, 6, 7]
    assert found.source == "9 samples of x.npy" and found.real
    assert found.held_out[0]["image"].shape == (1, 3, 4, 5)


def test_fewer_samples_are_chosen_by_the_seed(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", image=np.random.default_rng(0).normal(size=(50, 1, 3, 4, 5)))
    pick = [load_samples(tmp_path / "x.npz", [BORDER], FORM, 8, seed) for seed in (1, 1, 2)]
    sums = [[float(s["image"].sum()) for s in found.calibration] for found in pick]
    assert sums[0] == sums[1] != sums[2]
    assert len(pick[0].calibration) + len(pick[0].held_out) == 8


def test_arrays_of_several_inputs_go_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", state=np.ones((4, 2)), image=np.zeros((4, 3, 4, 5)))
    found = load_samples(tmp_path / "x.npz", [BORDER, OTHER], FORM, 9, 0)
    assert found.calibration[0]["state"].tolist() == [[1, 1]]


def test_random_data_says_so_and_repeats() -> None:
    one, two = (load_samples("random", [BORDER], FORM, 6, 3) for _ in range(2))
    assert not one.real and "random samples, seed 3" in one.source
    assert np.array_equal(one.calibration[0]["image"], two.calibration[0]["image"])


def test_random_numbers_fit_the_type_of_an_input() -> None:
    borders = [Border("ids", (1, 8), np.dtype(np.int64)), Border("mask", (1,), np.dtype(bool))]
    sample = load_samples("random", borders, FORM, 4, 0).calibration[0]
    assert set(np.unique(sample["ids"])) <= {0, 1} and sample["ids"].dtype == np.int64
    assert sample["mask"].tolist() == [True]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.npz", "no such file"),
        ("bad.npz", "is not a .npz file"),
        ("wrong.npz", "is (1, 3, 4, 5)"),
        ("two.npz", "holds 2 arrays, but the model has 1 inputs"),
        ("empty", "holds no images"),
    ],
)
def test_bad_data_is_named(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 nothing")
    np.savez(tmp_path / "wrong.npz", image=np.zeros((4, 7)))
    np.savez(tmp_path / "two.npz", a=np.zeros((4, 7)), b=np.zeros(3))
    (tmp_path / "empty").mkdir()
    if name == "empty":
        pytest.importorskip("PIL")
    with pytest.raises(FileError) as raised:
        load_samples(tmp_path / name, [BORDER], FORM, 9, 0)
    assert words in str(raised.value)


def test_images_are_sized_and_normalised(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(3):
        pixels = np.full((9, 7, 3), (255, 0, 51), np.uint8)
        image.fromarray(pixels).save(tmp_path / f"{number}.png")
    form = image_form("0.5", "0.5,0.25,0.1", 1.0, None)
    found = load_samples(tmp_path, [BORDER], form, 9, 0)
    values = found.held_out[0]["image"]
    assert values.shape == (1, 3, 4, 5)
    assert values[0, :, 0, 0].tolist() == pytest.approx([1.0, -2.0, -3.0])
    last = Border("image", (1, 4, 5, 3), np.dtype(np.uint8))
    assert load_samples(tmp_path, [last], form, 9, 0).held_out[0]["image"][0, 0, 0].tolist() == [
        *(255, 0, 51)
    ]


def test_where_the_channels_are() -> None:
    assert channels_first((1, 3, 8, 8), "") and not channels_first((1, 8, 8, 3), "")
    assert not channels_first((1, 3, 8, 3), "") and channels_first((1, 3, 8, 3), "nchw")
    with pytest.raises(UsageError):
        channels_first((1, 8, 8, 8), "")
    with pytest.raises(UsageError):
        channels_first((1, 8), "")


@pytest.mark.parametrize(
    ("mean", "std", "top"), [("a", None, 1.0), (None, "0", 1.0), (None, None, 0.0)]
)
def test_wrong_numbers_for_images(mean: str | None, std: str | None, top: float) -> None:
    with pytest.raises(UsageError):
        image_form(mean, std, top, None)


def test_random_numbers_for_inputs_beyond_the_memory_are_refused() -> None:
    border = Border("x", (1, 3, 30_000, 30_000), np.dtype(np.float32))
    with pytest.raises(ModelError, match="running the network needs about") as caught:
        load_samples("random", [border], image_form(None, None, 1.0, None), 128, 0)
    assert caught.value.where == "32 random inputs"


def test_pictures_are_cropped_as_asked(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, 2:6] = 200
    for number in range(2):
        image.fromarray(pixels).save(tmp_path / f"{number}.png")
    border = Border("x", (1, 4, 4, 3), np.dtype(np.uint8))
    for resize, has_edges in (("crop", False), ("stretch", True)):
        found = load_samples(tmp_path, [border], ImageForm(factor=1.0, resize=resize), 2, 0)
        assert (found.held_out[0]["x"].min() < 200) == has_edges


def test_a_layout_that_the_shape_contradicts() -> None:
    with pytest.raises(UsageError, match=r"nhwc gives the input .* 16 channels, expected 1 or 3"):
        channels_first((1, 3, 16, 16), "nhwc")
    assert channels_first((1, 3, 16, 16), "nchw")
