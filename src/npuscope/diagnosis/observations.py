"""The next thing to look at: the cheapest observation that tells the remaining causes apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.result import NextLook
from npuscope.diagnosis.scene import BoardScene, Frame
from npuscope.diagnosis.search import FaultTrial
from npuscope.diagnosis.sights import Sight, SightView
from npuscope.program.calls import element_type
from npuscope.sim.run import written

_MOST_CAUSES = 16
_INNER = 6  # buffers along the network of which a dump is considered
_MOST_LOOKS = 3
_KNOWN = (
    SightView.WEIGHTS,
    SightView.FLASH_WORD,
    SightView.INPUT,
    SightView.INPUT_RAM,
    SightView.OUTPUT_RAM,
)


class Observation(Struct, frozen=True):
    """`cost` orders them by the work that they are: a second run, a checksum, a debugger."""

    id: str
    cost: int
    words: str
    option: str
    sights: tuple[Sight, ...]


class _Row(Struct, frozen=True):
    """An observation of any network; CHECKSUMS in its option stands for those of the pools."""

    id: str
    cost: int
    words: str
    option: str
    views: tuple[SightView, ...]


_HALT = (SightView.WEIGHTS, SightView.INPUT, SightView.INPUT_RAM, SightView.OUTPUT_RAM)
_ROWS = (
    _Row(
        "again",
        1,
        "start a second run without writing the input again, and dump the output",
        "--seen again=FILE",
        (SightView.AGAIN,),
    ),
    _Row(
        "flash-word",
        1,
        "read a word of flash that you know (the application's own image): is it right?",
        "--seen flash-word=right (or wrong)",
        (SightView.FLASH_WORD,),
    ),
    _Row(
        "weights",
        2,
        "let the program compute a CRC-32 over the weights where it expects them, and read a "
        "word of flash that you know (of the application's own image)",
        "CHECKSUMS --seen flash-word=right",
        (SightView.WEIGHTS, SightView.FLASH_WORD),
    ),
    _Row(
        "input",
        2,
        "let the program compute a CRC-32 over the network's input buffer just before the run",
        "--seen input=CRC32",
        (SightView.INPUT,),
    ),
    _Row(
        "input-ram",
        3,
        "dump the input buffer with the debugger just before the run",
        "--seen input-ram=FILE",
        (SightView.INPUT_RAM,),
    ),
    _Row(
        "output-ram",
        3,
        "dump the output buffer with the debugger after the run, and compare with the print",
        "--seen output-ram=FILE",
        (SightView.OUTPUT_RAM,),
    ),
    _Row(
        "marker",
        3,
        "fill the network's RAM with 0x55, invalidate the caches, run, and list the buffers "
        "that still hold 0x55",
        "--seen marker=NAME,NAME",
        (SightView.MARKER,),
    ),
    _Row(
        "halt",
        4,
        "halt before the run: CRC-32 of the weights and of the input buffer in the program, "
        "a dump of the input buffer in the debugger; after it: a dump of the output buffer",
        "CHECKSUMS --seen input=CRC32 --seen input-ram=FILE --seen output-ram=FILE",
        _HALT,
    ),
    _Row(
        "session",
        6,
        "one session with the debugger: fill the network's RAM with 0x55 and write the input; "
        "before the run CRC-32 of weights and input buffer in the program, a word of flash "
        "that you know and a dump of the input buffer; after it a dump of the output buffer "
        "and the list of buffers that still hold 0x55",
        "CHECKSUMS --seen flash-word=right --seen input=CRC32 --seen input-ram=FILE "
        "--seen output-ram=FILE --seen marker=NAME,NAME",
        (*_HALT, SightView.FLASH_WORD, SightView.MARKER),
    ),
)


def observations(scene: BoardScene, inner: Sequence[str]) -> list[Observation]:
    """Of a scene that has one frame more than the user's, for the output of another input."""
    last = len(scene.frames) - 1
    checksums = " ".join(f"--seen weights:{pool}=CRC32" for pool in scene.images)
    rows = [
        Observation(
            "second-input",
            1,
            "run another input and dump its output",
            "--inputs A --inputs B --outputs OUT_A --outputs OUT_B",
            tuple(Sight(SightView.OUTPUT, name, last) for name in scene.program.outputs),
        )
    ]
    for row in _ROWS:
        sights = tuple(sight for view in row.views for sight in _sights(scene, view))
        option = row.option.replace("CHECKSUMS", checksums).strip()
        rows.append(Observation(row.id, row.cost, row.words, option, sights))
    for name in inner:
        epochs = [epoch.name for epoch in scene.program.executed if name in written(epoch)]
        words = f"dump the buffer '{name}' behind {epochs[-1] if epochs else 'its epoch'}"
        option, sight = f"--seen buffer:{name}=FILE", Sight(SightView.BUFFER, name)
        rows.append(Observation(f"buffer:{name}", 5, words, option, (sight,)))
    return rows


def _sights(scene: BoardScene, view: SightView) -> tuple[Sight, ...]:
    """All places that are looked at in one way."""
    match view:
        case SightView.WEIGHTS:
            names: Sequence[str] = tuple(scene.images)
        case SightView.INPUT | SightView.INPUT_RAM:
            names = scene.program.inputs
        case SightView.AGAIN | SightView.OUTPUT_RAM:
            names = scene.program.outputs
        case _:
            names = ("",)
    return tuple(Sight(view, name) for name in names)


# --- Where no cause is certain ---

_LOCALISE = ("weights", "buffer", "second-input", "input")
_CONFIRM = ("second-input", "weights", "buffer")
_SHOWS = {
    "weights": "shows whether the weights or the run is at fault",
    "buffer": "shows whether the fault is before it or behind it",
    "second-input": "shows whether the fault depends on the input",
    "input": "shows whether the network gets the frame",
}
_CONFIRMS = "shows whether the same fault explains it too"


def localising_looks(
    scene: BoardScene,
    used: frozenset[str],
    states: Mapping[str, bool],
    wrong_pools: Sequence[str],
) -> tuple[NextLook, ...]:
    """Where nothing reproduces the evidence: the cheapest looks that say where the fault is.

    `states` are buffers that were looked at, true where they are right.
    """
    if wrong_pools:
        words = f"dump the weights in {' and '.join(wrong_pools)} as the CPU reads them"
        option = " ".join(f"--seen weights:{pool}=FILE" for pool in wrong_pools)
        return (NextLook("weights-dump", words, option, shows="shows which bytes are wrong"),)
    return _looks(scene, used, _LOCALISE, _SHOWS, states)


def confirming_looks(scene: BoardScene, used: frozenset[str]) -> tuple[NextLook, ...]:
    """Where one cause reproduces it, perhaps by chance: what it would have to reproduce too."""
    return _looks(scene, used, _CONFIRM, dict.fromkeys(_CONFIRM, _CONFIRMS), {})[:1]


def _looks(
    scene: BoardScene,
    used: frozenset[str],
    order: Sequence[str],
    shows: Mapping[str, str],
    states: Mapping[str, bool],
) -> tuple[NextLook, ...]:
    inner = _half_way(scene, states)
    rows = {row.id.partition(":")[0]: row for row in observations(scene, inner)}
    if not scene.images:
        rows.pop("weights")
    looks = (rows[name] for name in order if name in rows and rows[name].id not in used)
    return tuple(
        NextLook(row.id, row.words, row.option, shows=shows[row.id.partition(":")[0]])
        for row in islice(looks, _MOST_LOOKS)
    )


def _half_way(scene: BoardScene, states: Mapping[str, bool]) -> tuple[str, ...]:
    """The buffer in the middle between the last one that is right and the first that is wrong."""
    names = _between(scene)
    wrong = [place for place, name in enumerate(names) if states.get(name) is False]
    names = names[: wrong[0]] if wrong else names
    right = [place for place, name in enumerate(names) if states.get(name)]
    names = names[right[-1] + 1 :] if right else names
    return tuple(names[len(names) // 2 :][:1])


# --- Where causes are to be told apart ---


def next_looks(
    scene: BoardScene, matches: Sequence[FaultTrial], used: frozenset[str]
) -> tuple[NextLook, ...]:
    """What to look at, and then, until single causes remain or nothing tells them apart."""
    faults: dict[str, FaultTrial] = {}
    for trial in matches:
        faults.setdefault(trial.cause.id, trial)
    trials = list(faults.values())[:_MOST_CAUSES]
    if len(trials) < 2:
        return ()
    names = () if scene.is_slow else _between(scene)
    inner = tuple(names[:: max(1, len(names) // _INNER)][:_INNER])
    wider = scene if scene.is_slow else scene.wider(lambda: _another(scene), inner)
    rows = [row for row in observations(wider, inner) if row.id not in used]
    if scene.is_slow:  # only what the runs that are there already tell
        rows = [row for row in rows if all(sight.view in _KNOWN for sight in row.sights)]
    marks = {row.id: [_mark(wider, row, trial) for trial in trials] for row in rows}
    groups: list[list[int]] = [list(range(len(trials)))]
    looks: list[NextLook] = []
    while len(looks) < _MOST_LOOKS and any(len(group) > 1 for group in groups):
        parted = {row.id: _parted(groups, marks[row.id]) for row in rows}
        best = min(rows, key=lambda row: (-len(parted[row.id]), row.cost), default=None)
        if best is None or len(parted[best.id]) == len(groups):
            break
        groups = parted[best.id]
        splits = tuple(tuple(trials[n].cause.id for n in group) for group in groups)
        looks.append(NextLook(best.id, best.words, best.option, splits))
        rows.remove(best)
    return tuple(looks)


def _parted(groups: list[list[int]], marks: list[bytes]) -> list[list[int]]:
    result = []
    for group in groups:
        parts: dict[bytes, list[int]] = {}
        for number in group:
            parts.setdefault(marks[number], []).append(number)
        result += list(parts.values())
    return result


def _mark(scene: BoardScene, row: Observation, trial: FaultTrial) -> bytes:
    """What the observation would show; causes with the same bytes are not told apart."""
    values = (scene.predict(sight, trial.fault) for sight in row.sights)
    return b"|".join(b"-" if v is None else np.ascontiguousarray(v).tobytes() for v in values)


def _another(scene: BoardScene) -> Frame:
    """A frame unlike the first one."""
    random = np.random.default_rng(1)
    inputs = {}
    for name, values in scene.frames[0].inputs.items():
        dtype = element_type(scene.buffers[name])
        if dtype.kind == "f":
            inputs[name] = random.permuted(values.reshape(-1)).reshape(values.shape)
        else:
            low, high = int(values.min()), int(values.max())
            inputs[name] = random.integers(low, high, values.shape, endpoint=True).astype(dtype)
    return Frame(inputs)


def _between(scene: BoardScene) -> list[str]:
    """Buffers between input and output, in the order in which they are written."""
    names = (
        name
        for epoch in scene.program.executed
        for name in written(epoch)
        if name not in scene.program.outputs and not scene.buffers[name].is_param
    )
    return list(dict.fromkeys(names))
