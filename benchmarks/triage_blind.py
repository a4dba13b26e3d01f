"""Faults and networks for `triage`, written without a look at its list of causes: five faults of
one author, five after public reports (`--public`).

python benchmarks/triage_blind.py [--public] [--kinds NAME,...] [--networks NAME,...] [--seed 0]
    [--json FILE]

Every fault goes into a simulated board with every network; the judge of benchmarks/triage.py gives
its three levels of evidence to `triage`. The table has what `triage` answered, in its order.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

import triage  # noqa: E402
import triage_blind_public as public  # noqa: E402
from triage_blind_networks import NETWORKS  # noqa: E402
from triage_board import Board, Bytes, Kind, Ram  # noqa: E402

from npuscope.diagnosis.result import Triage, TriageVerdict  # noqa: E402
from npuscope.diagnosis.run import diagnose  # noqa: E402

LINE = 32  # bytes of a line of the Cortex-M55's data cache


def address_line(board: Board, random: np.random.Generator) -> str:
    """One address line of the flash does not make contact: it reads as 0 for CPU and NPU."""
    largest = max(board.image(pool).size for pool in board.pools)
    bit = int(random.integers(3, max(4, (largest - 1).bit_length())))

    def read(_pool: str, image: Bytes) -> Bytes:
        return np.asarray(image[np.arange(image.size) & ~(1 << bit)])

    board.flash = read
    return f"address line {bit} of the flash reads as 0"


def studio_range(board: Board, random: np.random.Generator) -> str:
    """The camera's pixels are in video range, 16 to 235, the network was trained on 0 to 255."""
    low, high = int(random.integers(12, 21)), int(random.integers(225, 241))

    def supply(name: str, frame: Bytes, _before: Bytes, _ram: Bytes) -> Bytes:
        kind = board.dtype(name)
        if kind.kind == "f":
            scaled = frame.view(kind) * kind.type((high - low) / 255)
            return np.asarray(scaled.view(np.uint8))
        zero = 128 if kind.kind == "i" else 0
        pixels = (frame.view(kind).astype(np.int64) + zero).clip(0, 255)
        squeezed = low + np.rint(pixels * (high - low) / 255).astype(np.int64) - zero
        return squeezed.astype(kind).view(np.uint8)

    board.supply = supply
    return f"pixels go from {low} to {high}"


def log_ring(board: Board, random: np.random.Generator) -> str:
    """The DMA of the serial console puts its log into a ring that lies over the activations."""
    epoch = int(random.integers(0, len(board.program.epochs)))
    text = np.frombuffer(
        b"[%08d] npu: frame done, fps 29.97\r\n" % random.integers(10**7), np.uint8
    )
    place, length = float(random.uniform(0, 0.8)), int(random.integers(12, 72))

    def after(number: int, written: list[str], ram: Ram) -> None:
        if number == epoch and written:
            values = ram.get(written[0])
            start = int(place * values.size)
            some = np.resize(text, length)[: values.size - start]
            values[start : start + some.size] = some
            ram.set(written[0], values)

    board.epoch = after
    return f"{length} bytes of a log at {place:.0%} of what epoch {epoch} wrote"


def ragged_line(board: Board, random: np.random.Generator) -> str:
    """The result does not begin on a cache line: the last line is not invalidated, old bytes stay.

    So did SCB_InvalidateDCache_by_Addr of older CMSIS versions with an unaligned address.
    """
    bases: dict[str, int] = {}
    for name in board.outputs:
        size = board.size(name)
        least = min(-size % LINE + 1, LINE - 1)
        bases[name] = int(random.integers(least, LINE))

    def read(name: str, result: Bytes, before: Bytes) -> Bytes:
        fresh = max(0, -(-result.size // LINE) * LINE - bases[name])
        seen = result.copy()
        seen[fresh:] = before[fresh:]
        return seen

    board.read = read
    return f"results begin {bases} bytes behind the line"


def fast_clock(board: Board, random: np.random.Generator) -> str:
    """The NPU's clock is too fast for the core voltage: now and then a bit of a result is wrong."""
    rate = float(10 ** random.uniform(-2.5, -1.5))
    bit = int(random.integers(4, 8))  # the last carry is the slowest path

    def after(_number: int, written: list[str], ram: Ram) -> None:
        for name in written:
            values = ram.get(name)
            values[random.random(values.size) < rate] ^= np.uint8(1 << bit)
            ram.set(name, values)

    board.epoch = after
    return f"bit {bit} of {rate:.2%} of the bytes that an epoch writes flips, others each time"


KINDS = (
    Kind("address-line", "weights", address_line),
    Kind("studio-range", "input", studio_range),
    Kind("log-ring", "memory", log_ring),
    Kind("ragged-line", "output", ragged_line),
    Kind("fast-clock", "memory", fast_clock),
)


# what the text of the first suspect has to speak of, written before the first run
FAIR = {
    "address-line": r"weight|flash|coefficient|constant",
    "studio-range": r"range|contrast|normali|scal|pre-?process",
    "log-ring": r"overwr|overlap|somebody|someone|corrupt|another (master|writer)",
    "ragged-line": r"invalidat|stale|cache|old",
    "fast-clock": r"clock|voltage|unstable|random|each (run|time)|flip",
    **public.FAIR,
}
# the causes that are right, written after the first run: the words above also take the cache of the
# input for that of the output, and weights for activations; two faults at once are never right
RIGHT = {
    "address-line": r"(weights|flash)-[a-z-]+",
    "studio-range": r"input-scale",
    "log-ring": r"buffer-overlap|output-overwritten",
    "ragged-line": r"output-stale-cache",
    "fast-clock": r"-",
    **public.RIGHT,
}


class Answer(msgspec.Struct):
    """What came of one fault with one network at one level of evidence."""

    row: triage.Row
    seed: int
    outcome: str
    by_words: bool
    named: list[str]
    answers: list[Triage]  # the first, then those after the looks it proposed


def outcome(kind: str, where: str, visible: bool, answer: Triage) -> str:
    """How a strict engineer takes the first answer; a hint is what it calls the nearest cause."""
    if not visible:
        return (
            "nothing to see"
            if answer.verdict == TriageVerdict.NO_FAULT
            else "BLAMED without a sign"
        )
    if answer.verdict == TriageVerdict.NO_FAULT:
        return "OVERLOOKED"
    if answer.verdict == TriageVerdict.UNKNOWN:
        return "none explains it"
    groups = [c.suspects for c in answer.classes] or [(s,) for s in answer.nearest]
    right = [any(re.fullmatch(RIGHT[kind], s.id) for s in group) for group in groups]
    certain = answer.verdict == TriageVerdict.REPRODUCED
    said = "reproduced" if certain else "perhaps" if answer.classes else "hint"
    placed = public.RIGHT.get(kind) == "-" and not answer.classes  # only its place can be right
    if not groups or placed:
        said = "sign" if len(answer.points_to) == 1 else "one of several places"
        return f"{said} {'right' if where in answer.points_to else 'wrong'}"
    if any(right):
        return f"{said} right, {'first' if right[0] else 'later'}"
    return "BLAMED a wrong one" if certain else f"{said} wrong"


def judged(bench: triage.Bench, kind: Kind, level: int, seed: int) -> Answer:
    """The judge's row, with every answer of `triage` that it took on the way."""
    answers: list[Triage] = []

    def kept(*values: Any, **options: Any) -> Triage:
        answers.append(diagnose(*values, **options))
        return answers[-1]

    with patch.object(triage, "diagnose", kept):
        row = bench.judge(kind, level, seed)
    first = answers[0]
    groups = [c.suspects for c in first.classes] or [(s,) for s in first.nearest]
    words = " ".join(f"{s.title} {s.fault}" for s in groups[0]).lower() if groups else ""
    named = ["=".join(s.id for s in group) for group in groups]
    by_words = bool(re.search(FAIR[kind.name], words))
    return Answer(
        row, seed, outcome(kind.name, kind.where, row.visible, first), by_words, named, answers
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--public", action="store_true", help="faults after public reports")
    parser.add_argument("--kinds", help="some of them, by name")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    kinds = public.KINDS if args.public else KINDS
    chosen = args.kinds.split(",") if args.kinds else [kind.name for kind in kinds]
    rows: list[Answer] = []
    print("fault | network | evidence | changed | named in order | outcome | looks | single")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.networks.split(","):
            path = Path(folder) / f"{name}.{'onnx' if name == 'separable' else 'tflite'}"
            path.write_bytes(NETWORKS[name]())
            bench = triage.Bench(name, path, args.seed)
            for kind in (kind for kind in kinds if kind.name in chosen):
                for level, words in enumerate(triage.LEVELS):
                    answer = judged(bench, kind, level, args.seed)
                    rows.append(answer)
                    row, shown = answer.row, "; ".join(answer.named[:3]) or "-"
                    looks = ",".join(row.looks) or "-"
                    cells = (kind.name, name, words, row.visible, shown, answer.outcome, looks)
                    print(*cells, row.single, sep=" | ", flush=True)
    for kind_name, level_name in dict.fromkeys((a.row.kind, a.row.level) for a in rows):
        mine = [a for a in rows if (a.row.kind, a.row.level) == (kind_name, level_name)]
        by_words = sum(a.by_words for a in mine)
        print(kind_name, level_name, dict(Counter(a.outcome for a in mine)), f"words {by_words}")
    if args.json:
        args.json.write_bytes(msgspec.json.encode(rows, enc_hook=str))


if __name__ == "__main__":
    main()
