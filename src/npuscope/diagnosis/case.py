"""A case: the build, the inputs and what was seen, from the words of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.evidence import (
    FORMS,
    BoardEvidence,
    Seen,
    SeenDigest,
    SeenMarker,
    SeenValues,
    statement,
)
from npuscope.diagnosis.readers import quantized, read_dump, samples_in
from npuscope.diagnosis.scene import BoardScene, Frame
from npuscope.diagnosis.sights import Array, Sight, SightView, short_names
from npuscope.errors import FileError, UsageError
from npuscope.program.calls import element_type
from npuscope.program.model import Program
from npuscope.shown import counted
from npuscope.sim.memory import from_stored
from npuscope.text import safe_terminal

_DIGEST = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{40}|[0-9a-fA-F]{32}|[0-9a-fA-F]{8})")
_WHAT = re.compile(
    r"(?P<view>[a-z-]+)(?::(?P<name>.+?))?(?:@(?P<frame>\d{1,4}))?=(?P<value>.+)", re.DOTALL
)
_MOST_FRAMES = 16
HELPFUL = (
    "give --outputs FILE with the output's bytes and --inputs FILE with the input of that run, "
    f"or a sentence such as --says {FORMS[0]}, or a time (--time MS, --log FILE)"
)
_SEEN_FORM = (
    "expected WHAT=FILE or WHAT=CHECKSUM, where WHAT is weights:POOL, input, input-ram, "
    "output-ram, again, buffer:NAME, marker or flash-word"
)


class TriageRequest(Struct, frozen=True):
    """What the user has, as files and words."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    answers: tuple[tuple[Array, ...], ...] = ()  # outputs of a board that was asked, per frame

    @property
    def has_values(self) -> bool:
        return bool(self.outputs or self.seen or self.says or self.answers)


def no_evidence() -> FileError:
    return FileError("no evidence was given", where="SOURCE", hint=HELPFUL)


class TriageCase(Struct, frozen=True):
    scene: BoardScene
    evidence: BoardEvidence
    notes: tuple[str, ...]
    used: frozenset[str]  # observations that the user has made


def open_case(program: Program, request: TriageRequest, other: Program | None) -> TriageCase:
    """Reads all files before anything is simulated."""
    if not request.has_values:
        raise no_evidence()
    frames, notes = frames_of(program, request.inputs), []
    if not frames:
        if request.outputs:
            raise FileError(
                "the outputs have no input to compare with",
                where="--outputs",
                hint="give the input of that run with --inputs FILE",
            )
        frames = [_random(program, seed) for seed in (0, 1)]
        notes.append("no inputs were given: sentences and checksums are checked on random ones")
    previous = frames_of(program, request.previous, "--previous")
    seen: list[Seen] = [*_outputs(program, request.outputs, len(frames))]
    seen += [
        SeenValues(Sight(SightView.OUTPUT, name, frame), values)
        for frame, row in enumerate(request.answers)
        for name, values in zip(program.outputs, row, strict=True)
    ]
    seen += [one for text in request.seen for one in _seen(program, text, len(frames))]
    seen += [statement(text) for text in request.says]
    sights = (getattr(one, "sight", None) for one in seen)
    asked = [sight.name for sight in sights if sight is not None and sight.view is SightView.BUFFER]
    scene = BoardScene(program, frames, previous[-1] if previous else None, other, asked)
    ordered = sorted(seen, key=_cost)
    used = {text.partition("=")[0].partition("@")[0] for text in request.seen}
    used = {"weights" if word.startswith("weights:") else word for word in used}
    if len(frames) > 1:
        used.add("second-input")
    if len(frames) > 4:
        used.add("more-inputs")
    return TriageCase(scene, BoardEvidence(tuple(ordered)), tuple(notes), frozenset(used))


_ORDER = (
    SightView.WEIGHTS,
    SightView.FLASH_WORD,
    SightView.INPUT,
    SightView.INPUT_RAM,
    SightView.BUFFER,
)


def _cost(one: Seen) -> int:
    """What needs no run is compared first."""
    sight = getattr(one, "sight", None)
    view = None if sight is None else sight.view
    return _ORDER.index(view) if view in _ORDER else len(_ORDER) + getattr(sight, "frame", 0)


# --- Inputs ---


def frames_of(program: Program, files: Sequence[str], where: str = "--inputs") -> list[Frame]:
    """One file per input, or several for several frames; a file may hold several samples."""
    names, buffers = program.inputs, program.buffer_map()
    if not files:
        return []
    if len(files) % len(names):
        raise UsageError(
            f"the network has {len(names)} inputs, {len(files)} files were given",
            where=where,
            hint="give the files of the first frame, then those of the next",
        )
    frames: list[Frame] = []
    for first in range(0, len(files), len(names)):
        rows: dict[str, list[np.ndarray]] = {}
        for name, path in zip(names, files[first:], strict=False):
            samples = quantized(samples_in(read_dump(path), buffers[name]), buffers[name])
            if samples.shorter or any(mask is not None for mask in samples.masks):
                raise FileError("has gaps: an input has to be whole", where=path)
            rows[name] = [from_stored(buffers[name], row) for row in samples.rows]
        counts = {len(arrays) for arrays in rows.values()}
        if len(counts) != 1:
            raise FileError(f"inputs have different numbers of samples: {counts}", where=where)
        frames += [
            Frame({name: arrays[n] for name, arrays in rows.items()}) for n in range(counts.pop())
        ]
    return frames[:_MOST_FRAMES]


def _random(program: Program, seed: int) -> Frame:
    random, buffers = np.random.default_rng(seed), program.buffer_map()
    inputs = {}
    for name in program.inputs:
        dtype, shape = element_type(buffers[name]), buffers[name].shape
        if dtype.kind == "f":
            inputs[name] = random.uniform(-1, 1, shape).astype(dtype)
        else:
            limits = np.iinfo(dtype.name)
            inputs[name] = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return Frame(inputs)


# --- What was seen ---


def _outputs(program: Program, files: Sequence[str], frames: int) -> Iterator[Seen]:
    names, buffers = program.outputs, program.buffer_map()
    if len(files) % len(names):
        raise UsageError(
            f"the network has {len(names)} outputs, {len(files)} files were given",
            where="--outputs",
            hint="give the files of the first frame, then those of the next",
        )
    frame = 0
    for first in range(0, len(files), len(names)):
        count = 0
        for place, name in enumerate(names):
            samples = samples_in(read_dump(files[first + place]), buffers[name])
            count = len(samples.rows)
            if frame + count > max(frames, 1):
                if frames == _MOST_FRAMES:
                    count = frames - frame
                else:
                    raise FileError(
                        f"has outputs of {counted(frame + count, 'run')} for "
                        f"{counted(frames, 'input')}",
                        where=files[first + place],
                        hint="give the input of each run with --inputs; numbers that are wider "
                        "than the network's as .npy or as text",
                    )
            for number in range(count):
                yield SeenValues(
                    Sight(SightView.OUTPUT, name, frame + number),
                    samples.rows[number],
                    samples.masks[number],
                    samples.shorter,
                    samples.decoded,
                    samples.resolution,
                )
        frame += count


def _seen(program: Program, text: str, frames: int) -> Iterator[Seen]:
    match = _WHAT.fullmatch(text)
    views = {view.value: view for view in SightView}
    if match is None or match["view"] not in views:
        raise UsageError(_SEEN_FORM, where=f"--seen {safe_terminal(text[:80])}")
    view, name, value = views[match["view"]], match["name"] or "", match["value"]
    frame = int(match["frame"] or 1) - 1
    if not 0 <= frame < frames:
        raise UsageError(
            f"only {frames} inputs were given", where=f"--seen {safe_terminal(text[:80])}"
        )
    if view is SightView.MARKER:
        yield SeenMarker(frozenset(word.strip() for word in value.split(",") if word.strip()))
        return
    if view is SightView.FLASH_WORD:
        right = value.strip().lower() in ("right", "yes", "true", "1")
        yield SeenValues(Sight(view, ""), np.array([right], np.uint8))
        return
    name = _named(program, view, name, text)
    digest = _DIGEST.fullmatch(value)
    if digest and not Path(value).exists():
        yield SeenDigest(Sight(view, name, frame), value.lower().removeprefix("0x"))
        return
    yield _seen_file(program, Sight(view, name, frame), value)


def _named(program: Program, view: SightView, name: str, text: str) -> str:
    """The pool or buffer that is meant; a network with one of them needs no name."""
    if view is SightView.WEIGHTS:
        choices = list(dict.fromkeys(program.buffer_map()[n].pool for n in program.constants))
    elif view in (SightView.INPUT, SightView.INPUT_RAM):
        choices = list(program.inputs)
    elif view in (SightView.OUTPUT, SightView.OUTPUT_RAM, SightView.AGAIN):
        choices = list(program.outputs)
    else:
        choices = [buffer.name for buffer in program.buffers if not buffer.is_param]
        by_tensor = {buffer.tensor: buffer.name for buffer in program.buffers if buffer.tensor}
        others = by_tensor | short_names(buffer.name for buffer in program.buffers)
        name = others.get(name, name) if name not in choices else name
    if not name and len(choices) == 1:
        return choices[0]
    if name not in choices:
        some = ", ".join(choices[:6]) + (", ..." if len(choices) > 6 else "")
        raise UsageError(
            f"the network has no {view.value} '{safe_terminal(name)}'",
            where=f"--seen {safe_terminal(text[:80])}",
            hint=f"expected one of {safe_terminal(some)}",
        )
    return name


def _seen_file(program: Program, sight: Sight, path: str) -> Seen:
    dump = read_dump(path)
    if sight.view is SightView.WEIGHTS:
        from npuscope.program.model import images

        size = len(images(program)[sight.name])
        raw = np.ascontiguousarray(dump.values.reshape(-1)).view(np.uint8)
        if raw.size < size:
            raise FileError(
                f"has {raw.size:,} bytes, but the weights in {sight.name} have {size:,}",
                where=path,
                hint="dump the weights up to their last byte",
            )
        return SeenValues(sight, raw[:size], dump.mask if dump.mask is None else dump.mask[:size])
    buffer = program.buffer_map()[sight.name]
    samples = samples_in(dump, buffer, whole=sight.view is SightView.BUFFER)
    return SeenValues(
        sight,
        samples.rows[0],
        samples.masks[0],
        samples.shorter,
        samples.decoded,
        samples.resolution,
    )
