"""What was seen on a board, and how well a prediction fits it."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.fault import RIGHT, BoardFault
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import Array, Bytes, Sight, SightView
from npuscope.errors import FileError
from npuscope.structs import replace

_EXACT = 1e-4  # of a step: decoded values are printed with a few digits


class Likeness(Struct, frozen=True):
    """How many values were compared, are equal, and are no more than one step off; `distance` is
    the mean difference in steps, each counted as at most 255. Of the `touched` ones, which are not
    those of a right board, `explained` are as predicted."""

    compared: int = 0
    equal: int = 0
    near: int = 0
    distance: float = 0.0
    touched: int = 0
    explained: int = 0

    def __add__(self, other: Likeness) -> Likeness:
        total = self.compared + other.compared
        weighted = self.distance * self.compared + other.distance * other.compared
        return Likeness(
            total,
            self.equal + other.equal,
            self.near + other.near,
            weighted / max(1, total),
            self.touched + other.touched,
            self.explained + other.explained,
        )

    def of_touched(self, right: Likeness | None, tolerant: bool) -> Likeness:
        """Evidence that fits as a whole or not at all, beside how a right board fits it."""
        if right is None or right.holds(tolerant):
            return self
        touched = right.compared - (right.near if tolerant else right.equal)
        return replace(self, touched=touched, explained=touched * self.holds(tolerant))

    @property
    def exact(self) -> bool:
        return self.compared > 0 and self.equal == self.compared

    def holds(self, tolerant: bool) -> bool:
        """Every value is equal or, where the generation is not known, one step off."""
        return self.compared > 0 and (self.near if tolerant else self.equal) == self.compared


class Seen(Protocol):
    """One piece of evidence."""

    def fit(self, scene: BoardScene, fault: BoardFault) -> Likeness | None:
        """None where the fault says nothing about it."""
        ...

    @property
    def words(self) -> str: ...


class SeenValues(Struct, frozen=True):
    """Values of a sight in the order of memory. `mask` is false where the dump has a gap;
    `shorter`: bytes are missing and nobody knows where; `decoded`: real numbers, not stored ones,
    rounded by up to `resolution`.
    """

    sight: Sight
    values: Array
    mask: Array | None = None
    shorter: bool = False
    decoded: bool = False
    resolution: float = 0.0

    @property
    def words(self) -> str:
        frame = (
            f" of input {self.sight.frame + 1}" if self.sight.view is not SightView.WEIGHTS else ""
        )
        return f"{self.sight.view.value} '{self.sight.name}'{frame}, {self.values.size:,} values"

    def fit(self, scene: BoardScene, fault: BoardFault) -> Likeness | None:
        if self.shorter:
            values = scene.predict(self.sight, fault)
            return None if values is None else _shorter_fit(self.values, values)
        steps = self.steps(scene, fault)
        return None if steps is None else _of_steps(steps)

    def steps(self, scene: BoardScene, fault: BoardFault) -> Array | None:
        """How far each value is from the predicted one; None where they cannot be compared."""
        values = None if self.shorter else scene.predict(self.sight, fault)
        if values is None:
            return None
        step = 1.0
        buffer = scene.buffers.get(self.sight.name)
        if self.decoded and buffer is not None:
            step = buffer.quant.scale if buffer.quant else 1.0
            if fault.decode is not None:
                values = fault.decode(buffer, values)
            else:
                zero = buffer.quant.zero_point if buffer.quant else 0
                values = (values.astype(np.float64) - zero) * step
        elif values.dtype.kind == "f" and buffer is not None and buffer.quant is not None:
            step = float(buffer.quant.scale)
        elif values.dtype.kind == "f":  # a 255th of what a right board gives
            right = scene.predict(self.sight, RIGHT)
            finite = values[:0] if right is None else right[np.isfinite(right)]
            step = (float(np.ptp(finite)) / 255 if finite.size else 0.0) or 1.0
        if self.sight.view in (SightView.BUFFER, SightView.WEIGHTS):
            values = values.view(np.uint8)
        if values.size != self.values.size:
            return None
        with np.errstate(all="ignore"):  # bytes of a broken network may be no numbers
            a, b = self.values.astype(np.float64), values.astype(np.float64)
            if self.mask is not None:
                a, b = a[self.mask], b[self.mask]
            steps = np.abs(a - b) / step
            if self.decoded:
                steps = np.maximum(0, steps - self.resolution / step)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.where(same, 0.0, np.where(np.isfinite(steps), steps, 255.0))


def _of_steps(steps: Array) -> Likeness:
    return Likeness(
        steps.size,
        int((steps <= _EXACT).sum()),
        int((steps <= 1 + _EXACT).sum()),
        float(np.minimum(steps, 255.0).mean()) if steps.size else 0.0,
    )


def _shorter_fit(seen: Array, values: Array) -> Likeness:
    """Are these all values but a few that were lost on the way? Each that does not follow is
    taken for one behind a loss; there are no more losses than values that are missing."""
    lost, place, most = 0, 0, values.size - seen.size
    while place < seen.size:
        rest = seen[place:] != values[place + lost : seen.size + lost]
        first = int(rest.argmax())
        if not rest[first]:
            return Likeness(seen.size, seen.size, seen.size, 0.0)
        place += first
        lost += 1
        if lost > most:
            break
    share = 1 - place / seen.size
    return (
        Likeness(seen.size, place, place, 255 * share)
        if place < seen.size
        else Likeness(seen.size, seen.size, seen.size)
    )


class SeenDigest(Struct, frozen=True):
    """A checksum, by its number of hexadecimal digits: CRC-32, MD5, SHA-1 or SHA-256."""

    sight: Sight
    digest: str

    @property
    def name(self) -> str:
        return {8: "CRC", 32: "MD5", 40: "SHA-1"}.get(len(self.digest), "SHA-256")

    def right(self, scene: BoardScene) -> str:
        """The checksum that it should be."""
        values = scene.predict(self.sight, RIGHT)
        digits = len(self.digest)
        return "known" if values is None else digests(values.view(np.uint8), digits)[0]

    @property
    def words(self) -> str:
        return f"checksum of {self.sight.view.value} '{self.sight.name}'"

    def fit(self, scene: BoardScene, fault: BoardFault) -> Likeness | None:
        values = scene.predict(self.sight, fault)
        if values is None:
            return None
        same = int(self.digest.lower() in digests(values.view(np.uint8), len(self.digest)))
        return Likeness(1, same, same, 0.0 if same else 255.0)


def digests(raw: Bytes, digits: int) -> tuple[str, ...]:
    """Of these bytes, as tools and the board's own CRC unit give them."""
    data = raw.tobytes()
    match digits:
        case 8:
            words = len(data) // 4 * 4
            swapped = np.frombuffer(data[:words], "<u4").astype(">u4").tobytes()
            numbers = (zlib.crc32(data), _crc_mpeg(data), _crc_mpeg(swapped))
            return tuple(f"{number:08x}" for number in numbers)
        case 32:
            return (hashlib.md5(data).hexdigest(),)
        case 40:
            return (hashlib.sha1(data).hexdigest(),)
    return (hashlib.sha256(data).hexdigest(),)


_REVERSED = np.array([int(f"{n:08b}"[::-1], 2) for n in range(256)], np.uint8)


def _crc_mpeg(data: bytes) -> int:
    """CRC-32/MPEG-2 is CRC-32 of bytes with their bits reversed, reversed, without the last xor."""
    plain = zlib.crc32(_REVERSED[np.frombuffer(data, np.uint8)].tobytes()) ^ 0xFFFFFFFF
    return int(f"{plain:032b}"[::-1], 2)


class SeenMarker(Struct, frozen=True):
    """Which buffers kept the pattern."""

    kept: frozenset[str]

    @property
    def words(self) -> str:
        return f"the pattern stays in {', '.join(sorted(self.kept)) or 'no buffer'}"

    def fit(self, scene: BoardScene, fault: BoardFault) -> Likeness | None:
        flags = scene.predict(Sight(SightView.MARKER, ""), fault)
        if flags is None:
            return None
        expected = {name for name, flag in zip(scene.watched, flags, strict=True) if flag}
        listed = self.kept & set(scene.watched)
        same = int(expected == listed)
        return Likeness(1, same, same, 0.0 if same else 255.0)


# --- Only a sentence ---


class Statement(Struct, frozen=True):
    """What a sentence says about the outputs of several inputs: of every value, or of one each."""

    words: str
    holds: Callable[[Sequence[Mapping[str, Array]]], bool]
    of_all: bool = True

    def fit(self, scene: BoardScene, fault: BoardFault) -> Likeness | None:
        runs = []
        for frame in range(len(scene.frames)):
            outputs = {
                name: scene.predict(Sight(SightView.OUTPUT, name, frame), fault)
                for name in scene.program.outputs
            }
            values = {name: array for name, array in outputs.items() if array is not None}
            if len(values) == len(outputs):
                runs.append(values)
        if not runs:
            return None
        same = int(self.holds(runs))
        return Likeness(1, same, same, 0.0 if same else 255.0)


_NUMBER = r"(-?(?:0x[0-9a-f]+|\d+(?:\.\d+)?)|zeros?|nan)"
FORMS = (
    '"all outputs equal -128"',
    '"the same output for every input"',
    '"always class 3"',
)


def statement(text: str) -> Statement:
    """The meaning of a sentence; a FileError names the forms that are understood."""
    plain = " ".join(text.lower().replace(",", " ").split())
    same = re.search(r"\b(same|identical|constant|unchanged|independent)\b", plain)
    if same and re.search(r"\b(input|frame|picture|image|sample|run)s?\b", plain):
        return Statement(text, _same_everywhere)
    match = re.search(rf"always (?:class|label|argmax|index) {_NUMBER}", plain)
    if match:
        place = int(_value(match[1]))
        return Statement(
            text, lambda runs: all(next(iter(r.values())).argmax() == place for r in runs), False
        )
    match = re.search(
        rf"\b(?:all|every|only|constant(?:ly)?|min = max)\b.*?(?<![\w.]){_NUMBER}(?![\w.])", plain
    )
    if match:
        value = _value(match[1])
        return Statement(text, lambda runs: all(_all_equal(run, value) for run in runs))
    raise FileError(
        f"the sentence '{text}' is not understood",
        where="--says",
        hint=f"write for instance {', '.join(FORMS)}; a dump of the output (--outputs) says more",
    )


def _value(text: str) -> float:
    if text.startswith("zero"):
        return 0.0
    return float(int(text, 16)) if "0x" in text else float(text)


def _all_equal(run: Mapping[str, Array], value: float) -> bool:
    if np.isnan(value):
        return all(bool(np.isnan(v.astype(np.float64)).all()) for v in run.values())
    return all(
        bool((v == value).all()) or bool((v.view(np.uint8) == value).all()) for v in run.values()
    )


def _same_everywhere(runs: Sequence[Mapping[str, Array]]) -> bool:
    first = runs[0]
    return all(np.array_equal(run[name], first[name]) for run in runs for name in first)


# --- All of it ---


class BoardEvidence(Struct, frozen=True):
    """In the order in which it is compared: what needs no run first."""

    seen: tuple[Seen, ...]

    def fits(self, scene: BoardScene, fault: BoardFault = RIGHT) -> list[Likeness | None]:
        return [one.fit(scene, fault) for one in self.seen]


class Touch(Struct, frozen=True):
    """How a right board fits one piece of evidence, and which values the fault must have touched;
    None for what fits as a whole or not at all."""

    one: Seen
    right: Likeness | None
    places: Array | None
    limit: float  # steps up to which a value is as predicted
    is_repeat: bool = False  # the values of another input, once more: they prove nothing new

    def fit(self, scene: BoardScene, fault: BoardFault) -> Likeness | None:
        if self.places is None or not isinstance(self.one, SeenValues):
            fit = self.one.fit(scene, fault)
            return None if fit is None else fit.of_touched(self.right, self.limit >= 1)
        steps = self.one.steps(scene, fault)
        if steps is None:
            return None
        explained = int((steps[self.places] <= self.limit).sum())
        return replace(_of_steps(steps), touched=int(self.places.sum()), explained=explained)


def touches(evidence: BoardEvidence, scene: BoardScene, tolerant: bool) -> list[Touch]:
    limit = _EXACT + (1 if tolerant else 0)
    rows, values = [], set()
    for one in evidence.seen:
        steps = one.steps(scene, RIGHT) if isinstance(one, SeenValues) else None
        key = (one.sight.name, one.values.tobytes()) if isinstance(one, SeenValues) else None
        places = None if steps is None else steps > limit
        rows.append(Touch(one, one.fit(scene, RIGHT), places, limit, key in values))
        values |= {key} - {None}
    return rows


def proof_bits(one: Seen, touched: int) -> int:
    """What evidence weighs that a fault reproduces, a bit per value: another one would give the
    same by chance no more often than every second time."""
    if isinstance(one, SeenDigest):
        return 4 * len(one.digest) * touched
    if isinstance(one, SeenValues):  # a constant output is one value, however long it is
        return min(touched, 8 * one.values.itemsize * np.unique(one.values).size)
    if isinstance(one, SeenMarker) or (isinstance(one, Statement) and one.of_all):
        return 8 * touched  # as a constant
    return touched


def different_bytes(one: Seen, touched: int) -> int:
    """Of an output that the program may have misread: a constant is one of them."""
    if not isinstance(one, SeenValues) or one.sight.view is not SightView.OUTPUT:
        return 0
    return min(touched, np.unique(one.values).size) * one.values.itemsize
