"""Five more faults for benchmarks/triage_blind.py, after public reports that no cause of `triage`
was written from: pictures with bars, a gain that is too high, a packet that is lost, scores that
all come out higher, and a large result of which only the beginning is right."""

from __future__ import annotations

import numpy as np
from triage_board import Board, Bytes, Kind


def letterbox(board: Board, random: np.random.Generator) -> str:
    """The application keeps the picture's proportions and fills the rest with bars; the PC, and
    the training, stretched it (darknet 3157, yolov5 3119)."""
    share, grey = float(random.uniform(0.55, 0.9)), int(random.choice([0, 114, 128]))

    def supply(name: str, frame: Bytes, _before: Bytes, _ram: Bytes) -> Bytes:
        kind, shape = board.dtype(name), board.shape(name)
        axis = 1 if len(shape) > 2 and shape[1] > 1 else len(shape) - 2 if len(shape) > 2 else 1
        size = shape[axis]
        height = max(1, round(size * share))
        rows = np.minimum(size - 1, np.arange(height) * size // height)
        values = frame.view(kind).reshape(shape)
        flip = 128 if kind.kind == "i" else 0
        bars = np.full(shape, 0.0 if kind.kind == "f" else grey - flip, kind)
        top = (size - height) // 2
        place = tuple(
            slice(top, top + height) if number == axis else slice(None)
            for number in range(len(shape))
        )
        bars[place] = np.take(values, rows, axis)
        return np.ascontiguousarray(bars).reshape(-1).view(np.uint8)

    board.supply = supply
    return f"{share:.0%} of the height, bars of {grey}"


def gain(board: Board, random: np.random.Generator) -> str:
    """The microphone or the sensor amplifies too much: values are clipped (a public N6 speech
    application: 1,067 of 128,000 samples)."""
    factor = float(random.uniform(1.2, 3.0))

    def supply(name: str, frame: Bytes, _before: Bytes, _ram: Bytes) -> Bytes:
        kind, quant = board.dtype(name), board.buffer(name).quant
        values = frame.view(kind).astype(np.float64)
        if kind.kind == "f":
            return (values * factor).clip(-1, 1).astype(kind).view(np.uint8)
        zero = quant.zero_point if quant else 0
        limits = np.iinfo(kind)
        louder = np.rint((values - zero) * factor + zero).clip(limits.min, limits.max)
        return louder.astype(kind).view(np.uint8)

    board.supply = supply
    return f"gain {factor:.2f}"


def lost_packet(board: Board, random: np.random.Generator) -> str:
    """The input comes in packets of 50 bytes over a link, as in tflite-micro 960, and one of them
    is lost: what follows moves up, and the end is that of the frame before."""
    size = int(random.choice([50, 64, 100]))
    place = float(random.uniform(0, 0.9))

    def supply(name: str, frame: Bytes, before: Bytes, _ram: Bytes) -> Bytes:
        start = int(place * frame.size) // size * size
        rest = frame[start + size :]
        return np.concatenate([frame[:start], rest, before[start + rest.size :]])

    board.supply = supply
    return f"{size} bytes lost at {place:.0%}"


def higher_scores(board: Board, random: np.random.Generator) -> str:
    """The last layer's offset is another one on the board: every score is higher by the same (a
    public N6 audio network: 0.23 on each)."""
    steps = int(random.choice([-7, -4, 3, 5, 9]))

    def settle(name: str, result: Bytes, _before: Bytes) -> Bytes:
        kind, quant = board.dtype(name), board.buffer(name).quant
        values = result.view(kind)
        if kind.kind == "f":
            scale = quant.scale if quant else float(np.ptp(values)) / 255
            return np.asarray(values + kind.type(steps * scale)).view(np.uint8)
        limits = np.iinfo(kind)
        moved = (values.astype(np.int64) + steps).clip(limits.min, limits.max)
        return moved.astype(kind).view(np.uint8)

    board.settle = settle
    return f"{steps} steps on every value"


def large_result(board: Board, random: np.random.Generator) -> str:
    """The CPU's last step writes a large result wrongly from some byte on (a public N6 case: a
    small output was right, one of 64.7 kB was not)."""
    share = float(random.uniform(0.2, 0.7))
    mask = int(random.integers(1, 256))

    def settle(_name: str, result: Bytes, _before: Bytes) -> Bytes:
        start = int(share * result.size)
        result[start:] = np.roll(result[start:], 3) ^ np.uint8(mask)
        return result

    board.settle = settle
    return f"wrong from {share:.0%} on"


KINDS = (
    Kind("letterbox", "input", letterbox),
    Kind("gain", "input", gain),
    Kind("lost-packet", "input", lost_packet),
    Kind("higher-scores", "program", higher_scores),
    Kind("large-result", "program", large_result),
)
# What the text of the first suspect has to speak of, and the causes that are right, both written
# before the first run. "-": no cause is right, only a hint to the right place.
FAIR = {
    "letterbox": r"bar|letterbox|resiz|crop|pad|pre-?process",
    "gain": r"range|gain|scal|normali|clip|saturat",
    "lost-packet": r"lost|missing|shift|offset|packet",
    "higher-scores": r"offset|zero point|bias|scale",
    "large-result": r"overwr|stale|cache|large|memory",
}
RIGHT = {
    "letterbox": r"-",
    "gain": r"input-scale",
    "lost-packet": r"-",
    "higher-scores": r"output-scale",
    "large-result": r"output-stale-cache|output-overwritten|buffer-overlap",
}
