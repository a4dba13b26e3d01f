"""Tasks that answer for places of a picture: classes of pixels, and keypoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.accuracy.figures import Figure, resampled
from npuscope.accuracy.tasks import Arrays, TaskSample
from npuscope.errors import FileError

VOID = 255  # of masks: pixels that nobody judges
_PIXELS_MOVED = 0.01  # of a picture: fewer are the same answer
# How exactly people mark the keypoints of COCO, as parts of a person's size.
_COCO = (26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89)
_OTHER_SIGMA = 0.05
_NEAR_KEYPOINT = 0.02  # of the picture: a point that moves by less is the same answer


def planes_first(picture: tuple[int, ...]) -> bool:
    """Outputs have their channels where the picture has its colours."""
    return len(picture) == 4 and picture[1] in (1, 3) and picture[3] not in (1, 3)


class Segmentation(Struct, frozen=True):
    """The class of every pixel: places of the largest score, or classes as they are."""

    name = "segmentation"
    classes: int = 0

    def answer(self, outputs: Arrays, sample: TaskSample) -> np.ndarray:
        scores = max(outputs, key=lambda values: values.size)
        maps = scores.reshape(scores.shape[-3:]) if scores.ndim >= 3 else scores
        shape = next(iter(sample.inputs.values())).shape
        if maps.ndim == 3 and 1 not in maps.shape:
            return np.asarray(maps.argmax(0 if planes_first(shape) else -1), np.int16)
        plane = maps.reshape([size for size in maps.shape if size > 1])
        if plane.dtype.kind == "f" and not np.all(plane == np.rint(plane)):
            return np.asarray(plane > 0.5, np.int16)
        return plane.astype(np.int16)

    def figures(self, answers: Sequence[Any], truths: Sequence[Any]) -> tuple[Figure, ...]:
        classes = 1 + max(
            max(int(a.max()) for a in answers),
            max(int(t[t != VOID].max(initial=0)) for t in truths),
        )
        tables = np.stack([_confusion(a, t, classes) for a, t in zip(answers, truths, strict=True)])

        def mean_overlap(places: np.ndarray) -> float:
            table = tables[places].sum(0)
            hits = np.diag(table)
            union = table.sum(0) + table.sum(1) - hits
            return float((hits[union > 0] / union[union > 0]).mean())

        def accuracy(places: np.ndarray) -> float:
            table = tables[places].sum(0)
            return float(np.trace(table) / max(1, table.sum()))

        count = len(answers)
        return resampled("mIoU", count, mean_overlap), resampled("pixels right", count, accuracy)

    def right(self, answer: Any, truth: Any) -> bool:
        mask = _sized(truth, answer.shape)
        judged = mask != VOID
        return bool((answer[judged] == mask[judged]).mean() >= 0.5) if judged.any() else True

    def same(self, one: Any, other: Any) -> bool:
        return bool(np.mean(one != other) <= _PIXELS_MOVED)

    def shown(self, answer: Any) -> str:
        classes, counts = np.unique(answer, return_counts=True)
        largest = sorted(zip(counts, classes, strict=True), reverse=True)[:3]
        return ", ".join(f"class {c} {n / answer.size:.0%}" for n, c in largest)

    def check(self, outputs: Arrays, truths: Sequence[Any], names: Sequence[str]) -> None:
        return None


def _sized(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A mask at another size, each pixel from the nearest."""
    rows, columns = (np.arange(n) * m // n for n, m in zip(shape, mask.shape, strict=True))
    return mask[np.ix_(rows, columns)]


def _confusion(answer: np.ndarray, truth: np.ndarray, classes: int) -> np.ndarray:
    mask = _sized(truth, answer.shape)
    judged = mask != VOID
    places = mask[judged].astype(np.int64) * classes + answer[judged]
    return np.bincount(places, minlength=classes * classes).reshape(classes, classes)


class Keypoints(Struct, frozen=True):
    """Points as parts of the picture's width and height: the peaks of maps, or numbers as they
    are. A truth holds x, y and whether the point is visible."""

    name = "keypoints"

    def answer(self, outputs: Arrays, sample: TaskSample) -> np.ndarray:
        values = max(outputs, key=lambda array: array.size)
        sizes = [size for size in values.shape if size > 1]
        if len(sizes) == 3:  # maps, one per point
            maps = values.reshape(sizes)
            if planes_first(next(iter(sample.inputs.values())).shape):
                maps = maps.transpose(1, 2, 0)
            rows, columns, _ = maps.shape
            peaks = maps.reshape(rows * columns, -1).argmax(0)
            return np.stack([(peaks % columns + 0.5) / columns, (peaks // columns + 0.5) / rows], 1)
        rows_of = values.reshape(-1, 3 if values.size % 3 == 0 and values.shape[-1] == 3 else 2)
        if rows_of.shape[1] == 3:  # MoveNet: y, x, score
            return rows_of[:, 1::-1].astype(np.float64)
        return rows_of.astype(np.float64)

    def figures(self, answers: Sequence[Any], truths: Sequence[Any]) -> tuple[Figure, ...]:
        scores = np.array([_similarity(a, t) for a, t in zip(answers, truths, strict=True)])
        judged = np.isfinite(scores)

        def mean(places: np.ndarray) -> float:
            finite = scores[places][judged[places]]
            return float(finite.mean()) if finite.size else float("nan")

        return (resampled("OKS", len(answers), mean),)

    def right(self, answer: Any, truth: Any) -> bool:
        return bool(_similarity(answer, truth) >= 0.5)

    def same(self, one: Any, other: Any) -> bool:
        return bool(np.abs(one - other).max() <= _NEAR_KEYPOINT)

    def shown(self, answer: Any) -> str:
        return " ".join(f"({x:.2f}, {y:.2f})" for x, y in np.asarray(answer)[:3, :2])

    def check(self, outputs: Arrays, truths: Sequence[Any], names: Sequence[str]) -> None:
        return None


def _similarity(answer: np.ndarray, truth: np.ndarray) -> float:
    """COCO's object keypoint similarity; the size of an object is that of its points."""
    if len(answer) != len(truth):
        raise FileError(
            f"a label has {len(truth)} points, but the network gives {len(answer)}",
            where="--labels",
        )
    visible = truth[:, 2] > 0 if truth.shape[1] > 2 else np.ones(len(truth), bool)
    if not visible.any():
        return float("nan")
    marked = truth[visible, :2]
    area = float(np.prod(np.maximum(np.ptp(marked, axis=0), 0.05)))
    sigmas = (
        np.array(_COCO) / 1000 if len(truth) == len(_COCO) else np.full(len(truth), _OTHER_SIGMA)
    )
    distance = ((answer[visible] - marked) ** 2).sum(1)
    return float(np.exp(-distance / (2 * (2 * sigmas[visible]) ** 2 * area)).mean())
