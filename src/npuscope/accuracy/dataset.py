"""Samples on disk: a folder of pictures, sounds or raw inputs, arrays in a file, or a table."""

from __future__ import annotations

import csv
import io
import wave
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from npuscope.accuracy.inputs import NetworkInput, as_reals, fitted, holds_pixels
from npuscope.accuracy.pictures import PICTURES, ImageForm, channels_first, formed, pixels_of
from npuscope.bounded_file import ARRAY, RESULT, read_array, read_bytes, read_npz, read_text
from npuscope.errors import FileError, UsageError
from npuscope.installed import needs
from npuscope.text import safe_terminal

_SOUNDS = (".wav",)
_RAW = (".bin", ".raw")
LABEL_NAMES = ("labels", "label", "y", "targets", "target")
_KINDS = {"pictures": PICTURES, "sounds": _SOUNDS, "raw inputs": _RAW, "arrays": (".npy",)}

Reals = dict[str, np.ndarray]
Change = Callable[[np.ndarray], np.ndarray]


class Dataset(Struct, frozen=True):
    """Samples in order. `read` gives the real values of one for every input of the network, after
    a change of its pixels or values if one is asked for."""

    source: str
    kind: str
    names: tuple[str, ...]
    network: NetworkInput  # the first that samples are made for
    read: Callable[[int, ImageForm, Change | None], Reals]
    folders: tuple[str, ...] = ()  # of a sample, below the folder that was named
    labels: np.ndarray | None = None  # that the file itself holds
    files: tuple[Path, ...] = ()
    pixels: bool = False  # that preprocessing applies to

    def __len__(self) -> int:
        return len(self.names)


def open_dataset(source: str | Path, inputs: Sequence[NetworkInput], limit: int | None) -> Dataset:
    path = Path(source)
    if path.is_dir():
        return _folder(path, inputs, limit)
    if path.suffix.lower() == ".csv":
        return _table(path, inputs, limit)
    return _arrays(path, inputs, limit)


# --- Folders ---


def _folder(folder: Path, inputs: Sequence[NetworkInput], limit: int | None) -> Dataset:
    every = sorted(p for p in folder.rglob("*") if p.is_file())
    by_kind = {
        kind: [p for p in every if p.suffix.lower() in endings] for kind, endings in _KINDS.items()
    }
    kind, files = max(by_kind.items(), key=lambda item: len(item[1]))
    if not files:
        endings = ", ".join(ending for group in _KINDS.values() for ending in group)
        raise FileError("holds no samples", where=str(folder), hint=f"known: {endings}")
    if len(inputs) != 1:
        raise UsageError(
            f"a folder serves one input, but the model has {len(inputs)}",
            where=f"--data {folder}",
            hint="give a .npz with one array per input and one for the labels",
        )
    if kind == "pictures":
        needs("Pillow", "PIL", "data")
    samples = [files[place] for place in _spread(len(files), limit)]
    reader = _READERS[kind]
    network = inputs[0]

    def read(place: int, form: ImageForm, change: Change | None) -> Reals:
        return {network.name: reader(samples[place], network, form, change)}

    return Dataset(
        source=folder.name,
        kind=kind,
        names=tuple(str(file.relative_to(folder)) for file in samples),
        network=network,
        read=read,
        folders=tuple(str(file.parent.relative_to(folder)) for file in samples),
        files=tuple(samples),
        pixels=kind == "pictures",
    )


def _spread(count: int, limit: int | None) -> list[int]:
    """Places of as many samples as wanted, evenly over all: classes come one after the other."""
    if limit is None or limit >= count:
        return list(range(count))
    return [number * count // limit for number in range(limit)]


def _picture(
    file: Path, network: NetworkInput, form: ImageForm, change: Change | None
) -> np.ndarray:
    first = channels_first(network.shape, form.layout)
    shape = network.shape
    rows, columns, channels = (shape[2], shape[3], shape[1]) if first else shape[1:]
    pixels = pixels_of(file, rows, columns, channels, form.resize)
    reals = formed(pixels if change is None else change(pixels), form)
    return np.asarray(reals.transpose(2, 0, 1) if first else reals).reshape(shape)


def _sound(file: Path, network: NetworkInput, form: ImageForm, change: Change | None) -> np.ndarray:
    """16-bit samples from -1 to 1, cut or filled with silence to the length of the input."""
    if sum(size > 1 for size in network.shape) > 1:
        raise UsageError(
            f"the input {network.shape} is not a sound: the features are computed outside of the "
            "network",
            where="--data",
            hint="give the features that the application computes, as .npy files or a .npz",
        )
    try:
        with wave.open(io.BytesIO(read_bytes(file, RESULT))) as sound:
            width, channels = sound.getsampwidth(), sound.getnchannels()
            frames = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError) as error:
        raise FileError(f"cannot be read as a sound: {error}", where=str(file)) from None
    if width not in (1, 2, 4):
        raise FileError(f"has samples of {width} bytes, expected 1, 2 or 4", where=str(file))
    whole = frames[: len(frames) // (width * channels) * width * channels]
    values = np.frombuffer(whole, "u1" if width == 1 else f"<i{width}")
    mono = values.reshape(-1, channels).mean(1)
    reals = (mono - 128) / 128 if width == 1 else mono / 2.0 ** (8 * width - 1)
    length = int(np.prod(network.shape))
    filled = np.zeros(length, np.float32)
    filled[: min(length, reals.size)] = reals[:length]
    return (filled if change is None else change(filled)).reshape(network.shape)


def _raw(file: Path, network: NetworkInput, form: ImageForm, change: Change | None) -> np.ndarray:
    """The bytes of an input, in the type that the network takes; else those of floats."""
    data = read_bytes(file, ARRAY)
    for dtype in (network.dtype, np.dtype(np.float32)):
        if len(data) == int(np.prod(network.shape)) * dtype.itemsize:
            values = np.frombuffer(data, dtype).reshape(network.shape)
            return as_reals(values, network, form, change)
    expected = int(np.prod(network.shape)) * network.dtype.itemsize
    raise FileError(
        f"has {len(data):,} bytes, but the input {network.shape} takes {expected:,}",
        where=str(file),
    )


def _array(file: Path, network: NetworkInput, form: ImageForm, change: Change | None) -> np.ndarray:
    values = fitted(read_array(file), network, str(file))
    return as_reals(values, network, form, change)


_READERS = {"pictures": _picture, "sounds": _sound, "raw inputs": _raw, "arrays": _array}


# --- Files of many samples ---


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    if path.suffix.lower() != ".npz":
        return {"": read_array(path)}
    if not path.exists():
        raise FileError("no such file", where=str(path))
    return read_npz(path)


def _arrays(path: Path, inputs: Sequence[NetworkInput], limit: int | None) -> Dataset:
    """An array for every input, by name or in order, and one of labels; the first axis counts."""
    arrays = read_arrays(path)
    label_name = next((name for name in LABEL_NAMES if name in arrays), None)
    labels = arrays.pop(label_name) if label_name else None
    names = [network.name for network in inputs]
    if not arrays.keys() >= {*names}:
        if len(arrays) != len(names):
            raise FileError(
                f"holds {len(arrays)} arrays beside the labels, but the model has {len(names)} "
                "inputs",
                where=str(path),
                hint=f"name them as the inputs: {', '.join(map(safe_terminal, names))}",
            )
        arrays = dict(zip(names, arrays.values(), strict=True))
    counts = {len(values) if values.ndim else 0 for values in (arrays[name] for name in names)}
    if len(counts) != 1 or 0 in counts:
        raise FileError(
            f"expected as many samples for every input, found {sorted(counts)}", where=str(path)
        )
    total = counts.pop()
    places = np.array(_spread(total, limit), int)
    if labels is not None and len(labels) != total:
        raise FileError(f"{len(labels)} labels for {total} samples", where=str(path))

    def read(place: int, form: ImageForm, change: Change | None) -> Reals:
        return {
            network.name: as_reals(
                fitted(arrays[network.name][places[place]], network, str(path)),
                network,
                form,
                change,
            )
            for network in inputs
        }

    return Dataset(
        source=path.name,
        kind="arrays",
        names=tuple(f"#{place}" for place in places),
        network=inputs[0],
        read=read,
        labels=None if labels is None else labels[places],
        pixels=any(holds_pixels(arrays[network.name], network) for network in inputs),
    )


def _table(path: Path, inputs: Sequence[NetworkInput], limit: int | None) -> Dataset:
    """One sample per line; a column `label` in the head, or one more column than the input has
    elements, holds the labels."""
    rows = csv_rows(path)
    if len(inputs) != 1 or not rows:
        raise FileError(
            "a table serves one input" if rows else "holds no samples",
            where=str(path),
            hint="give a .npz with one array per input" if rows else "",
        )
    head = [cell.strip().lower() for cell in rows[0]]
    has_head = not all(_is_number(cell) for cell in rows[0][:-1])
    body = rows[1:] if has_head else rows
    if not body:
        raise FileError("holds a head and no samples", where=str(path))
    width = int(np.prod(inputs[0].shape))
    column = next((head.index(n) for n in LABEL_NAMES if has_head and n in head), None)
    if column is None and len(rows[0]) == width + 1:
        column = width
    if column is not None and column > width:
        raise FileError(
            f"the label is in column {column + 1}, but the input has {width} values",
            where=str(path),
        )
    places = _spread(len(body), limit)
    body, lines = [body[n] for n in places], [n + 1 + has_head for n in places]
    expected = width + (column is not None)
    bad = next((n for n, row in enumerate(body) if len(row) != expected), None)
    if bad is not None:
        raise FileError(
            f"line {lines[bad]} has {len(body[bad])} values, expected {expected}",
            where=str(path),
        )
    labels = [row.pop(column) for row in body] if column is not None else None
    try:
        values = np.array(body, np.float64).reshape(len(body), *inputs[0].shape)
    except ValueError as error:
        raise FileError(f"holds more than numbers: {error}", where=str(path)) from None
    far = ~(np.abs(values) <= np.finfo(np.float32).max).reshape(len(body), -1).all(1)
    if far.any():
        raise FileError(
            f"line {lines[int(far.argmax())]} has a value that no float32 holds", where=str(path)
        )

    def read(place: int, form: ImageForm, change: Change | None) -> Reals:
        reals = values[place].astype(np.float32)
        return {inputs[0].name: reals if change is None else change(reals)}

    return Dataset(
        source=path.name,
        kind="table",
        names=tuple(f"line {line}" for line in lines),
        network=inputs[0],
        read=read,
        labels=None if labels is None else np.array([label.strip() for label in labels]),
    )


def csv_rows(path: Path) -> list[list[str]]:
    """The lines of a table that are not empty."""
    try:
        return [row for row in csv.reader(io.StringIO(read_text(path, RESULT))) if row]
    except csv.Error as error:
        raise FileError(f"is not a table with commas: {error}", where=str(path)) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
