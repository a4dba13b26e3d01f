"""Detection: outputs of the detectors in use decoded to boxes, and mean average precision.

Boxes are left, top, right, bottom as parts of the picture; a row of an answer is a box, its score
and its class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.accuracy.figures import Figure, resampled
from npuscope.accuracy.tasks import Arrays, TaskSample
from npuscope.errors import FileError, UsageError

_LEAST_SCORE = 0.01
_OVERLAP = 0.5  # of boxes that are one
_MOST_BOXES = 100
_SURE_SCORE = 0.5  # boxes that an application would show
_LEVELS = tuple(0.5 + 0.05 * n for n in range(10))  # COCO's
# Width and height of anchors in cells: those of the vendor's trained YOLOv2.
_ANCHORS_V2 = np.array(
    ((0.9883, 3.3606), (2.1194, 5.3759), (3.0520, 9.1336), (5.5517, 9.3066), (9.7260, 11.1422))
)


class Detection(Struct, frozen=True):
    name = "detection"
    classes: tuple[str, ...] = ()

    def answer(self, outputs: Arrays, sample: TaskSample) -> np.ndarray:
        picture = next(iter(sample.inputs.values())).shape
        return decoded(outputs, picture)

    def figures(self, answers: Sequence[Any], truths: Sequence[Any]) -> tuple[Figure, ...]:
        tables = [
            [_matches(a, t, level) for a, t in zip(answers, truths, strict=True)]
            for level in _LEVELS
        ]
        truth_classes = [
            np.asarray(t)[:, 4].astype(int) if len(t) else np.zeros(0, int) for t in truths
        ]

        def at(level: int) -> Callable[[np.ndarray], float]:
            return lambda places: _mean_precision(
                [tables[level][p] for p in places], [truth_classes[p] for p in places]
            )

        def all_levels(places: np.ndarray) -> float:
            return float(np.mean([at(level)(places) for level in range(len(_LEVELS))]))

        count = len(answers)
        half = resampled("mAP@0.5", count, at(0))
        return half, resampled("mAP@0.5:0.95", count, all_levels)

    def right(self, answer: Any, truth: Any) -> bool:
        """Every object is there, and nothing else that an application would show."""
        detections = answer[answer[:, 4] >= _SURE_SCORE]
        return len(detections) == len(truth) and bool(
            _matches(detections, truth, _OVERLAP)[:, 2].all()
        )

    def same(self, one: Any, other: Any) -> bool:
        first, second = (a[a[:, 4] >= _SURE_SCORE] for a in (one, other))
        if len(first) != len(second):
            return False
        as_truth = np.concatenate([second[:, :4], second[:, 5:6]], 1)
        return bool(_matches(first, as_truth, _OVERLAP)[:, 2].all())

    def shown(self, answer: Any) -> str:
        boxes = np.asarray(answer)
        if boxes.shape[-1:] == (6,):
            boxes = boxes[boxes[:, 4] >= _SURE_SCORE]
        return f"{len(boxes)} boxes"

    def check(self, outputs: Arrays, truths: Sequence[Any], names: Sequence[str]) -> None:
        empty = sum(not len(truth) for truth in truths)
        if empty == len(truths):
            raise FileError("no sample has a box", where="--labels")


# --- Decoders ---


def decoded(outputs: Arrays, picture: tuple[int, ...]) -> np.ndarray:
    shapes = [values.shape for values in outputs]
    rows, columns = (picture[1], picture[2]) if picture[-1] in (1, 3) else (picture[2], picture[3])
    if len(outputs) == 4 and {*map(len, shapes)} <= {1, 2, 3}:
        boxes = _of_postprocess(outputs)
    elif len(outputs) == 1 and len([n for n in shapes[0] if n > 1]) == 2:
        boxes = _of_rows(outputs[0].reshape([n for n in shapes[0] if n > 1]), rows, columns)
    elif all(len(shape) == 4 for shape in shapes):
        boxes = np.concatenate([_of_grid(values[0], len(outputs)) for values in outputs])
    elif len(outputs) == 2:
        boxes = _of_pair(*sorted(outputs, key=lambda values: values.shape[-1] == 4))
    else:
        raise UsageError(
            f"no decoder for the outputs {', '.join(map(str, shapes))}",
            where="--task detection",
            hint="known: YOLOv5, v8 and v11, YOLOX, YOLOv2, SSD with boxes and scores, and the "
            "four outputs of a detection postprocess",
        )
    return _without_doubles(boxes[boxes[:, 4] >= _LEAST_SCORE])


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -60, 60))))


def _corners(centres: np.ndarray) -> np.ndarray:
    half = centres[:, 2:4] / 2
    return np.concatenate([centres[:, :2] - half, centres[:, :2] + half], 1)


def _rows(corners: np.ndarray, scores: np.ndarray) -> np.ndarray:
    best = scores.argmax(1)
    return np.concatenate([corners, scores.max(1, keepdims=True), best[:, None]], 1)


def _of_rows(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """YOLOv8 and later: four numbers and a score per class; YOLOv5 has one more before them."""
    table = values if values.shape[0] > values.shape[1] else values.T
    centres, scores = table[:, :4].astype(np.float64), table[:, 4:].astype(np.float64)
    anchors = 3 * sum((rows // s) * (columns // s) for s in (8, 16, 32))
    if len(table) == anchors:  # YOLOv5: three anchors a cell, and whether there is an object
        scores = scores[:, 1:] * scores[:, :1] if scores.shape[1] > 1 else scores
    if centres.max(initial=0) > 2:  # in pixels
        centres = centres / (columns, rows, columns, rows)
    return _rows(_corners(centres), scores)


def _of_postprocess(outputs: Arrays) -> np.ndarray:
    """Boxes (top, left, bottom, right), classes, scores and their number, in any order."""
    flat = [np.squeeze(values, 0) if values.ndim > 1 else values for values in outputs]
    boxes = next(v for v in flat if v.ndim == 2)
    number = int(next((v.ravel()[0] for v in flat if v.size == 1), len(boxes)))
    vectors = [v for v in flat if v.ndim == 1 and v.size == len(boxes)]
    whole = [bool(np.all(v == np.rint(v))) for v in vectors]
    classes = vectors[whole.index(True)] if True in whole else vectors[0]
    scores = next(v for v in vectors if v is not classes)
    table = np.stack([boxes[:, 1], boxes[:, 0], boxes[:, 3], boxes[:, 2], scores, classes], 1)
    return np.asarray(table[:number], np.float64)


def _of_pair(scores: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Decoded boxes (left, top, right, bottom) and scores; class 0 is the background of SSDs."""
    table = scores.reshape(-1, scores.shape[-1]).astype(np.float64)
    corners = boxes.reshape(-1, 4).astype(np.float64)
    behind = table[:, 1:] if table.shape[1] > 1 else table
    return _rows(corners, behind)


def _of_grid(values: np.ndarray, scales: int) -> np.ndarray:
    """Cells with x, y, w, h, object and classes per anchor: YOLOv2 on one grid, YOLOX on three."""
    rows, columns, depth = values.shape
    anchors = len(_ANCHORS_V2) if scales == 1 and depth % len(_ANCHORS_V2) == 0 else 1
    cells = values.reshape(rows, columns, anchors, depth // anchors).astype(np.float64)
    y, x = np.mgrid[0:rows, 0:columns]
    grid = np.stack([x, y], -1)[:, :, None]
    if anchors > 1:
        middle = (_sigmoid(cells[..., :2]) + grid) / (columns, rows)
        size = np.exp(np.clip(cells[..., 2:4], -20, 20)) * _ANCHORS_V2 / (columns, rows)
        kinds = np.exp(cells[..., 5:] - cells[..., 5:].max(-1, keepdims=True))
        scores = kinds / kinds.sum(-1, keepdims=True) * _sigmoid(cells[..., 4:5])
    else:
        middle = (cells[..., :2] + grid) / (columns, rows)
        size = np.exp(np.clip(cells[..., 2:4], -20, 20)) / (columns, rows)
        scores = _sigmoid(cells[..., 5:]) * _sigmoid(cells[..., 4:5])
    centres = np.concatenate([middle, size], -1).reshape(-1, 4)
    return _rows(_corners(centres), scores.reshape(len(centres), -1))


def _overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:4], others[:, 2:4])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    areas = np.prod(others[:, 2:4] - others[:, :2], axis=1) + np.prod(box[2:4] - box[:2])
    return np.asarray(shared / np.maximum(areas - shared, 1e-12))


def _without_doubles(boxes: np.ndarray) -> np.ndarray:
    candidates = boxes[np.argsort(-boxes[:, 4], kind="stable")]
    winners: list[np.ndarray] = []
    while len(candidates) and len(winners) < _MOST_BOXES:
        best, candidates = candidates[0], candidates[1:]
        winners.append(best)
        candidates = candidates[
            (candidates[:, 5] != best[5]) | (_overlaps(best, candidates) < _OVERLAP)
        ]
    return np.array(winners).reshape(-1, 6)


# --- Precision ---


def _matches(answer: np.ndarray, truth: np.ndarray, level: float) -> np.ndarray:
    """Of every box, the best first: its score, its class, and whether it meets an object that no
    better box has met."""
    objects = np.asarray(truth, float).reshape(-1, 5)
    rest = np.ones(len(objects), bool)
    rows = []
    for box in answer:
        free = np.flatnonzero(rest & (objects[:, 4] == box[5]))
        overlaps = _overlaps(box[:4], objects[free]) if len(free) else np.zeros(0)
        hit = bool(len(free)) and bool(overlaps.max() >= level)
        if hit:
            rest[free[overlaps.argmax()]] = False
        rows.append((box[4], box[5], hit))
    return np.array(rows, float).reshape(-1, 3)


def _mean_precision(tables: Sequence[np.ndarray], truths: Sequence[np.ndarray]) -> float:
    """COCO's: precision at 101 recalls, the mean over the classes that have objects."""
    boxes = np.concatenate(tables) if tables else np.zeros((0, 3))
    objects = np.concatenate(truths) if truths else np.zeros(0, int)
    means = []
    for kind in np.unique(objects):
        rows = boxes[boxes[:, 1] == kind]
        hits = rows[np.argsort(-rows[:, 0], kind="stable"), 2].cumsum()
        recall = hits / (objects == kind).sum()
        precision = hits / np.arange(1, len(rows) + 1)
        best = np.maximum.accumulate(precision[::-1])[::-1]
        places = np.searchsorted(recall, np.linspace(0, 1, 101), side="left")
        means.append(np.concatenate([best, [0.0]])[np.minimum(places, len(best))].mean())
    return float(np.mean(means)) if means else float("nan")
