"""What was seen on a board, and how well a prediction fits it."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.fault import RIGHT, Fault
from npuscope.diagnosis.scene import Scene
from npuscope.diagnosis.sights import Array, Bytes, Sight, View
from npuscope.errors import FileError
from npuscope.program.model import Buffer

_EXACT = 1e-4  # of a step: decoded values are printed with a few digits


class Fit(Struct, frozen=True):
    """How many values were compared, are equal, and are no more than one step off; `distance` is
    the mean difference in steps, each counted as at most 255."""

    compared: int = 0
    equal: int = 0
    near: int = 0
    distance: float = 0.0

    def __add__(self, other: Fit) -> Fit:
        total = self.compared + other.compared
        weighted = self.distance * self.compared + other.distance * other.compared
        return Fit(
            total, self.equal + other.equal, self.near + other.near, weighted / max(1, total)
        )

    @property
    def exact(self) -> bool:
        return self.compared > 0 and self.equal == self.compared

    def holds(self, tolerant: bool) -> bool:
        """Every value is equal or, where the generation is not known, one step off."""
        return self.compared > 0 and (self.near if tolerant else self.equal) == self.compared


class Seen(Protocol):
    """One piece of evidence."""

    def fit(self, scene: Scene, fault: Fault) -> Fit | None:
        """None where the fault says nothing about it."""
        ...

    @property
    def words(self) -> str: ...


class SeenValues(Struct, frozen=True):
    """Values of a sight in the order of memory. `known` is false where the dump has a gap;
    `shorter`: bytes are missing and nobody knows where; `decoded`: real numbers, not stored ones.
    """

    sight: Sight
    values: Array
    known: Array | None = None
    shorter: bool = False
    decoded: bool = False

    @property
    def words(self) -> str:
        frame = f" of input {self.sight.frame + 1}" if self.sight.view is not View.WEIGHTS else ""
        return f"{self.sight.view.value} '{self.sight.name}'{frame}, {self.values.size:,} values"

    def fit(self, scene: Scene, fault: Fault) -> Fit | None:
        values = scene.predict(self.sight, fault)
        if values is None:
            return None
        step = 1.0
        buffer = scene.buffers.get(self.sight.name)
        if self.decoded and buffer is not None:
            values, step = _as_reals(buffer, values, fault)
        elif fault.decode is not None and self.sight.view is View.OUTPUT:
            return None  # the bytes tell nothing about how they are decoded
        elif values.dtype.kind == "f":
            step = _float_step(buffer, values)
        if self.sight.view in (View.BUFFER, View.WEIGHTS):
            values = values.view(np.uint8)
        if self.shorter:
            return _shorter_fit(self.values, values)
        if values.size != self.values.size:
            return None
        return _fit(self.values, values, step, self.known)


def _as_reals(buffer: Buffer, values: Array, fault: Fault) -> tuple[Array, float]:
    step = buffer.quant.scale if buffer.quant else 1.0
    if fault.decode is not None:
        return fault.decode(buffer, values), step
    zero = buffer.quant.zero_point if buffer.quant else 0
    return (values.astype(np.float64) - zero) * step, step


def _float_step(buffer: Buffer | None, values: Array) -> float:
    if buffer is not None and buffer.quant is not None:
        return float(buffer.quant.scale)
    finite = values[np.isfinite(values)]
    return (float(np.ptp(finite)) / 255 if finite.size else 0.0) or 1.0


def _fit(seen: Array, values: Array, step: float, known: Array | None) -> Fit:
    a, b = seen.astype(np.float64), values.astype(np.float64)
    if known is not None:
        a, b = a[known], b[known]
    with np.errstate(all="ignore"):
        steps = np.abs(a - b) / step
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    steps = np.where(same, 0.0, np.where(np.isfinite(steps), steps, 255.0))
    return Fit(
        a.size,
        int((steps <= _EXACT).sum()),
        int((steps <= 1 + _EXACT).sum()),
        float(np.minimum(steps, 255.0).mean()) if a.size else 0.0,
    )


def _shorter_fit(seen: Array, values: Array) -> Fit:
    """Are these all values but a few that were lost on the way? Each that does not follow is
    taken for one behind a loss; there are no more losses than values that are missing."""
    lost, place, most = 0, 0, values.size - seen.size
    while place < seen.size:
        rest = seen[place:] != values[place + lost : seen.size + lost]
        first = int(rest.argmax())
        if not rest[first]:
            return Fit(seen.size, seen.size, seen.size, 0.0)
        place += first
        lost += 1
        if lost > most:
            break
    share = 1 - place / seen.size
    return (
        Fit(seen.size, place, place, 255 * share)
        if place < seen.size
        else Fit(seen.size, seen.size, seen.size)
    )


class SeenDigest(Struct, frozen=True):
    """A checksum, by its number of hexadecimal digits: CRC-32, MD5, SHA-1 or SHA-256."""

    sight: Sight
    digest: str

    @property
    def words(self) -> str:
        return f"checksum of {self.sight.view.value} '{self.sight.name}'"

    def fit(self, scene: Scene, fault: Fault) -> Fit | None:
        values = scene.predict(self.sight, fault)
        if values is None:
            return None
        same = int(self.digest.lower() in digests(values.view(np.uint8)))
        return Fit(1, same, same, 0.0 if same else 255.0)


def digests(raw: Bytes) -> frozenset[str]:
    """Of these bytes, as tools and the board's own CRC unit give them."""
    data = raw.tobytes()
    words = len(data) // 4 * 4
    swapped = np.frombuffer(data[:words], "<u4").astype(">u4").tobytes()
    return frozenset(
        (
            f"{zlib.crc32(data):08x}",
            f"{_crc_mpeg(data):08x}",
            f"{_crc_mpeg(swapped):08x}",
            hashlib.md5(data).hexdigest(),
            hashlib.sha1(data).hexdigest(),
            hashlib.sha256(data).hexdigest(),
        )
    )


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

    def fit(self, scene: Scene, fault: Fault) -> Fit | None:
        flags = scene.predict(Sight(View.MARKER, ""), fault)
        if flags is None:
            return None
        expected = {name for name, flag in zip(scene.watched, flags, strict=True) if flag}
        listed = self.kept & set(scene.watched)
        same = int(expected == listed)
        return Fit(1, same, same, 0.0 if same else 255.0)


# --- Only a sentence ---


class Statement(Struct, frozen=True):
    """What a sentence says about the outputs of several inputs."""

    words: str
    holds: Callable[[Sequence[Mapping[str, Array]]], bool]

    def fit(self, scene: Scene, fault: Fault) -> Fit | None:
        runs = []
        for frame in range(len(scene.frames)):
            outputs = {
                name: scene.predict(Sight(View.OUTPUT, name, frame), fault)
                for name in scene.program.outputs
            }
            values = {name: array for name, array in outputs.items() if array is not None}
            if len(values) == len(outputs):
                runs.append(values)
        if not runs:
            return None
        same = int(self.holds(runs))
        return Fit(1, same, same, 0.0 if same else 255.0)


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
        return Statement(text, lambda runs: all(_top(run) == place for run in runs))
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


def _top(run: Mapping[str, Array]) -> int:
    return int(next(iter(run.values())).argmax())


# --- All of it ---


class Evidence(Struct, frozen=True):
    """In the order in which it is compared: what needs no run first."""

    seen: tuple[Seen, ...]

    def fits(self, scene: Scene, fault: Fault = RIGHT) -> list[Fit | None]:
        return [one.fit(scene, fault) for one in self.seen]
