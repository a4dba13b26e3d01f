"""Labels: folders of classes, tables, arrays, masks, boxes and points."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.accuracy.dataset import LABEL_NAMES, Dataset, csv_rows, read_arrays
from npuscope.accuracy.pictures import opened_picture
from npuscope.bounded_file import RESULT, parse_json, read_bytes, read_text
from npuscope.errors import FileError
from npuscope.installed import needs
from npuscope.text import safe_terminal

_SHOWN = 40  # characters of a label in a message
_MOST_DIGITS = 9  # of the place of an output


class Labels(Struct, frozen=True):
    """One truth per sample, in the form that the task takes; names of classes where known."""

    truths: tuple[Any, ...]
    classes: tuple[str, ...] = ()


def labels_of(data: Dataset, source: str | Path | None, task: str) -> Labels | None:
    """Those of the file that was named, else of the data itself; None where it has none."""
    raw: Sequence[Any]
    names: tuple[str, ...] = ()
    if source is not None:
        path = Path(source)
        if path.is_dir():
            return _folder(data, path, task)
        if path.suffix.lower() == ".json":
            return _coco(data, path, task)
        if path.suffix.lower() in (".npy", ".npz"):
            raw = list(_array(data, path))
        else:
            rows = csv_rows(path)
            if (
                rows
                and all(len(row) == 1 for row in rows)
                and data.labels is None
                and any(data.folders)
            ):
                names, raw = tuple(row[0].strip() for row in rows), data.folders
            else:
                raw = _table(data, rows, path)
    elif data.labels is not None:
        raw = list(data.labels)
    elif len({*data.folders}) > 1:
        raw = data.folders
    else:
        return None
    where = str(source or data.source)
    if task == "regression":
        return Labels(tuple(_numbers(row, where) for row in raw))
    return _classes(raw, names, where)


def _numbers(label: Any, where: str) -> np.ndarray:
    try:
        values = np.atleast_1d(np.asarray(label, float))
    except (ValueError, TypeError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        shown = safe_terminal(str(label)[:_SHOWN])
        raise FileError(f"the label '{shown}' is not a number", where=where)
    return values


def _classes(raw: Sequence[Any], names: tuple[str, ...], where: str) -> Labels:
    """Whole numbers are places of outputs; names count in alphabetical order, or as listed."""
    words = [str(value).strip() for value in raw]
    if not names and all(re.fullmatch(r"\d+(\.0*)?", word) for word in words):
        numbers = [word.partition(".")[0] for word in words]
        large = next((word for word in numbers if len(word.lstrip("0")) > _MOST_DIGITS), None)
        if large is not None:
            raise FileError(f"the label {large[:_SHOWN]} is no place of an output", where=where)
        return Labels(tuple(map(int, numbers)))
    classes = names or tuple(sorted({*words}, key=_natural))
    place = {name: number for number, name in enumerate(classes)}
    missing = [word for word in words if word not in place]
    if missing:
        raise FileError(
            f"{len(missing)} of {len(words)} samples have no class in the list: '{missing[0]}' is "
            "the first",
            where=where,
        )
    return Labels(tuple(place[word] for word in words), classes)


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]


def _array(data: Dataset, path: Path) -> np.ndarray:
    arrays = read_arrays(path)
    name = next((name for name in LABEL_NAMES if name in arrays), next(iter(arrays), ""))
    values = arrays.get(name, np.zeros(0))
    if values.ndim == 0 or len(values) != len(data):
        raise FileError(
            f"{values.shape[0] if values.ndim else 1} labels for {len(data)} samples",
            where=str(path),
        )
    return values


def _table(data: Dataset, rows: Sequence[Sequence[str]], path: Path) -> list[Any]:
    """Lines of a file name and what belongs to it (the last column is the label), or of labels
    alone, in the order of the samples."""
    if len(rows) in (len(data), len(data) + 1) and all(len(row) == 1 for row in rows):
        return [row[0] for row in rows[len(rows) - len(data) :]]
    by_name = {Path(row[0].strip()).name: row[-1].strip() for row in rows if len(row) > 1}
    labels = [by_name.get(Path(name).name) for name in data.names]
    missing = [name for name, label in zip(data.names, labels, strict=True) if label is None]
    if missing:
        raise FileError(
            f"{len(missing)} of {len(data)} samples have no label: {missing[0]} is the first",
            where=str(path),
            hint="lines are 'file,label'",
        )
    return labels


# --- Masks, boxes and points ---


def _folder(data: Dataset, folder: Path, task: str) -> Labels:
    """A file for every sample with its name: masks as pictures or arrays, boxes as YOLO's text."""
    files = {file.stem: file for file in sorted(folder.rglob("*")) if file.is_file()}
    own = [files.get(Path(name).stem) for name in data.names]
    missing = [name for name, file in zip(data.names, own, strict=True) if file is None]
    # A picture without a text is one without objects.
    if missing and (task != "detection" or len(missing) == len(own)):
        raise FileError(
            f"{len(missing)} of {len(data)} samples have no label: {missing[0]} is the first",
            where=str(folder),
        )
    if task == "detection":
        return Labels(tuple(_yolo(file) if file else np.zeros((0, 5)) for file in own))
    return Labels(tuple(_mask(file) for file in own if file))


def _mask(file: Path) -> np.ndarray:
    if file.suffix.lower() == ".npy":
        return read_arrays(file)[""]
    needs("Pillow", "PIL", "data")
    with opened_picture(file) as image:
        return np.asarray(image).astype(np.int16)


def _yolo(file: Path) -> np.ndarray:
    """Lines of class, centre and size, as parts of the picture."""
    try:
        rows = np.array(
            [line.split()[:5] for line in read_text(file, RESULT).splitlines() if line.strip()],
            float,
        ).reshape(-1, 5)
    except ValueError:
        rows = np.full((1, 5), np.nan)
    if not np.isfinite(rows).all():
        raise FileError("is not a list of boxes: 'class x y width height'", where=str(file))
    half = rows[:, 3:5] / 2
    return np.concatenate([rows[:, 1:3] - half, rows[:, 1:3] + half, rows[:, :1]], 1)


def _coco(data: Dataset, path: Path, task: str) -> Labels:
    try:
        content = parse_json(read_bytes(path, RESULT))
        images = {Path(str(i["file_name"])).name: i for i in content["images"]}
        kinds = [int(c["id"]) for c in sorted(content.get("categories", ()), key=lambda c: c["id"])]
        names = {int(c["id"]): str(c["name"]) for c in content.get("categories", ())}
        by_image: dict[Any, list[Mapping[str, Any]]] = {}
        for annotation in content["annotations"]:
            by_image.setdefault(annotation["image_id"], []).append(annotation)
        missing = [name for name in data.names if Path(name).name not in images]
        if missing:
            raise FileError(
                f"{len(missing)} of {len(data)} samples have no label: {missing[0]} is the first",
                where=str(path),
            )
        truths = [_of_image(images[Path(n).name], by_image, kinds, task) for n in data.names]
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise FileError(
            f"is not a list of annotations in COCO's form: {error!r}", where=str(path)
        ) from None
    return Labels(tuple(truths), tuple(names[kind] for kind in kinds))


def _of_image(
    image: Mapping[str, Any],
    by_image: Mapping[Any, list[Mapping[str, Any]]],
    kinds: Sequence[int],
    task: str,
) -> np.ndarray:
    width, height = float(image["width"]), float(image["height"])
    own = by_image.get(image["id"], [])
    if task == "keypoints":
        largest = max(own, key=lambda a: a.get("area", 0))
        points = np.array(largest["keypoints"], float).reshape(-1, 3)
        return points / (width, height, 1.0)
    boxes = []
    for annotation in own:
        x, y, w, h = (float(value) for value in annotation["bbox"])
        kind = (
            kinds.index(int(annotation["category_id"])) if kinds else int(annotation["category_id"])
        )
        boxes.append((x / width, y / height, (x + w) / width, (y + h) / height, kind))
    return np.array(boxes, float).reshape(-1, 5)
