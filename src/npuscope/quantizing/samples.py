"""Calibration data: a folder of images, arrays in a .npz or .npy file, or seeded random numbers.

Every fourth sample is held out: ranges are found on the others, results are compared on these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.accuracy.dataset import read_arrays
from npuscope.accuracy.pictures import PICTURES, ImageForm, channels_first, formed, pixels_of
from npuscope.errors import FileError, UsageError
from npuscope.graph.limits import check_run
from npuscope.installed import needs
from npuscope.text import safe_terminal

RANDOM = "random"
_HELD_OUT = 4  # one in so many
_MOST_HELD_OUT = 32
_RANDOM_COUNT = 32
_INDICES = 2  # random numbers for whole-number inputs are below this: any table has two rows

Sample = Mapping[str, np.ndarray]


class Border(Struct, frozen=True):
    """An input of the float network."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class CalibrationSamples(Struct, frozen=True):
    """`source` says where they are from; `real` is False for random numbers."""

    calibration: tuple[Sample, ...]
    held_out: tuple[Sample, ...]
    source: str
    real: bool


def load_samples(
    source: str | Path, borders: Sequence[Border], form: ImageForm, most: int, seed: int
) -> CalibrationSamples:
    path = Path(source)
    if str(source) == RANDOM and not path.exists():
        count = min(most, _RANDOM_COUNT)
        source_text = f"{count} random samples, seed {seed}: accuracy figures mean little"
        sizes = (border.dtype.itemsize * prod(border.shape) for border in borders)
        check_run(count * sum(sizes), 0, f"{count} random inputs")
        generator = np.random.default_rng(seed)
        random = [{b.name: _noise(b, generator) for b in borders} for _ in range(count)]
        return _split(random, source_text, False)
    if path.is_dir():
        samples = _pictures(path, borders, form, most, seed)
        return _split(samples, f"{len(samples)} images of {path.name}", True)
    samples = _arrays(path, borders, most, seed)
    return _split(samples, f"{len(samples)} samples of {path.name}", True)


def _split(samples: Sequence[Sample], source: str, real: bool) -> CalibrationSamples:
    held_out = samples[::_HELD_OUT][:_MOST_HELD_OUT]
    rest = [sample for number, sample in enumerate(samples) if number % _HELD_OUT]
    if not rest:  # one sample serves for both
        rest = list(samples)
    return CalibrationSamples(tuple(rest), tuple(held_out), source, real)


def _chosen(count: int, most: int, seed: int) -> list[int]:
    """Which of them, in their own order: the same for the same seed."""
    if count <= most:
        return list(range(count))
    picked = np.random.default_rng(seed).choice(count, most, replace=False)
    return sorted(int(number) for number in picked)


# --- Random numbers ---


def _noise(border: Border, generator: np.random.Generator) -> np.ndarray:
    if border.dtype.kind == "f":
        return generator.normal(size=border.shape).astype(border.dtype)
    if border.dtype.kind == "b":
        return np.ones(border.shape, border.dtype)
    most = 256 if border.dtype.itemsize == 1 else _INDICES
    return generator.integers(0, most, border.shape).astype(border.dtype)


# --- Arrays ---


def _arrays(path: Path, borders: Sequence[Border], most: int, seed: int) -> list[Sample]:
    """A .npz holds an array for every input, by name or in order; a .npy one for the only input.
    The first axis counts the samples."""
    arrays = read_arrays(path)
    if not set(arrays) >= {b.name for b in borders}:
        if len(arrays) != len(borders):
            inputs = ", ".join(safe_terminal(b.name) for b in borders)
            raise FileError(
                f"holds {len(arrays)} arrays, but the model has {len(borders)} inputs",
                where=str(path),
                hint=f"name the arrays as the inputs: {inputs}",
            )
        arrays = dict(zip((b.name for b in borders), arrays.values(), strict=True))
    columns = {b.name: _column(arrays[b.name], b, path) for b in borders}
    count = min(len(column) for column in columns.values())
    if not count:
        raise FileError("holds no sample", where=str(path))
    return [{n: c[i] for n, c in columns.items()} for i in _chosen(count, most, seed)]


def _column(values: np.ndarray, border: Border, path: Path) -> list[np.ndarray]:
    """Samples as the input takes them, with or without an axis for the batch."""
    one = border.shape[1:] if border.shape[:1] == (1,) else border.shape
    for shape in (border.shape, one):
        if values.ndim == len(shape) + 1 and values.shape[1:] == shape:
            return [v.reshape(border.shape).astype(border.dtype) for v in values]
        if values.shape == shape:
            return [values.reshape(border.shape).astype(border.dtype)]
    raise FileError(
        f"samples have the shape {values.shape[1:]}, but input '{safe_terminal(border.name)}' is "
        f"{border.shape}",
        where=str(path),
        hint="the first axis counts the samples, the others are those of the input",
    )


# --- Images ---


def _pictures(
    folder: Path, borders: Sequence[Border], form: ImageForm, most: int, seed: int
) -> list[Sample]:
    needs("Pillow", "PIL", "data")
    if len(borders) != 1:
        raise UsageError(
            f"a folder of images serves one input, but the model has {len(borders)}",
            where=f"--data {folder}",
            hint="give a .npz with one array per input",
        )
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in PICTURES and p.is_file())
    if not files:
        raise FileError("holds no images", where=str(folder), hint=f"known: {', '.join(PICTURES)}")
    border = borders[0]
    first = channels_first(border.shape, form.layout)
    selection = [files[number] for number in _chosen(len(files), most, seed)]
    return [{border.name: _picture(file, border, form, first)} for file in selection]


def _picture(file: Path, border: Border, form: ImageForm, first: bool) -> np.ndarray:
    rows, columns, channels = (
        (border.shape[2], border.shape[3], border.shape[1]) if first else border.shape[1:]
    )
    pixels = pixels_of(file, rows, columns, channels, form.resize)
    if border.dtype.kind == "f":
        pixels = formed(pixels, form)
    ordered = pixels.transpose(2, 0, 1) if first else pixels
    return np.ascontiguousarray(ordered, border.dtype).reshape(border.shape)
