"""The next thing to look at: the cheapest observation that tells the remaining causes apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.result import NextLook
from npuscope.diagnosis.scene import Frame, Scene
from npuscope.diagnosis.search import Trial
from npuscope.diagnosis.sights import Sight, View
from npuscope.program.calls import element_type
from npuscope.sim.run import written

_MOST_CAUSES = 16
_INNER = 6  # buffers along the network of which a dump is considered
_MOST_LOOKS = 3
_KNOWN = (View.WEIGHTS, View.FLASH_WORD, View.INPUT, View.INPUT_RAM, View.OUTPUT_RAM)


class Observation(Struct, frozen=True):
    """`cost` orders them by the work that they are: a second run, a checksum, a debugger."""

    id: str
    cost: int
    words: str
    option: str
    sights: tuple[Sight, ...]


def observations(scene: Scene, inner: Sequence[str]) -> list[Observation]:
    """Of a scene that has one frame more than the user's, for the output of another input."""
    program, last = scene.program, len(scene.frames) - 1
    outputs, inputs = program.outputs, program.inputs
    pools = tuple(scene.images)
    weights = tuple(Sight(View.WEIGHTS, pool) for pool in pools)
    fed = tuple(Sight(View.INPUT_RAM, name) for name in inputs)
    given = tuple(Sight(View.INPUT, name) for name in inputs)
    stored = tuple(Sight(View.OUTPUT_RAM, name) for name in outputs)
    word = Sight(View.FLASH_WORD, "")
    checksum = " ".join(f"--seen weights:{pool}=CRC32" for pool in pools)
    rows = [
        Observation(
            "second-input",
            1,
            "run another input and dump its output",
            "--inputs A --inputs B --outputs OUT_A --outputs OUT_B",
            tuple(Sight(View.OUTPUT, name, last) for name in outputs),
        ),
        Observation(
            "again",
            1,
            "start a second run without writing the input again, and dump the output",
            "--seen again=FILE",
            tuple(Sight(View.AGAIN, name) for name in outputs),
        ),
        Observation(
            "flash-word",
            1,
            "read a word of flash that you know (the application's own image): is it right?",
            "--seen flash-word=right (or wrong)",
            (word,),
        ),
        Observation(
            "weights",
            2,
            "let the program compute a CRC-32 over the weights where it expects them, and read a "
            "word of flash that you know (of the application's own image)",
            f"{checksum} --seen flash-word=right".strip(),
            (*weights, word),
        ),
        Observation(
            "input",
            2,
            "let the program compute a CRC-32 over the network's input buffer just before the run",
            "--seen input=CRC32",
            given,
        ),
        Observation(
            "input-ram",
            3,
            "dump the input buffer with the debugger just before the run",
            "--seen input-ram=FILE",
            fed,
        ),
        Observation(
            "output-ram",
            3,
            "dump the output buffer with the debugger after the run, and compare with the print",
            "--seen output-ram=FILE",
            stored,
        ),
        Observation(
            "marker",
            3,
            "fill the network's RAM with 0x55, invalidate the caches, run, and list the buffers "
            "that still hold 0x55",
            "--seen marker=NAME,NAME",
            (Sight(View.MARKER, ""),),
        ),
        Observation(
            "halt",
            4,
            "halt before the run: CRC-32 of the weights and of the input buffer in the program, "
            "a dump of the input buffer in the debugger; after it: a dump of the output buffer",
            f"{checksum} --seen input=CRC32 --seen input-ram=FILE --seen output-ram=FILE".strip(),
            (*weights, *given, *fed, *stored),
        ),
        Observation(
            "session",
            6,
            "one session with the debugger: fill the network's RAM with 0x55 and write the input; "
            "before the run CRC-32 of weights and input buffer in the program, a word of flash "
            "that you know and a dump of the input buffer; after it a dump of the output buffer "
            "and the list of buffers that still hold 0x55",
            f"{checksum} --seen flash-word=right --seen input=CRC32 --seen input-ram=FILE "
            "--seen output-ram=FILE --seen marker=NAME,NAME".strip(),
            (*weights, word, *given, *fed, *stored, Sight(View.MARKER, "")),
        ),
    ]
    rows += [
        Observation(
            f"buffer:{name}",
            5,
            f"dump the buffer '{name}' behind {_epoch_of(scene, name)}",
            f"--seen buffer:{name}=FILE",
            (Sight(View.BUFFER, name),),
        )
        for name in inner
    ]
    return rows


def _epoch_of(scene: Scene, name: str) -> str:
    epochs = [epoch for epoch in scene.program.executed if name in written(epoch)]
    return epochs[-1].name if epochs else "its epoch"


def next_looks(
    scene: Scene, matches: Sequence[Trial], used: frozenset[str]
) -> tuple[NextLook, ...]:
    """What to look at, and then, until single causes remain or nothing tells them apart."""
    faults: dict[str, Trial] = {}
    for trial in matches:
        faults.setdefault(trial.cause.id, trial)
    trials = list(faults.values())[:_MOST_CAUSES]
    if len(trials) < 2:
        return ()
    inner = () if scene.is_slow else _inner_buffers(scene)
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


def _mark(scene: Scene, row: Observation, trial: Trial) -> bytes:
    """What the observation would show; causes with the same bytes are not told apart."""
    values = (scene.predict(sight, trial.fault) for sight in row.sights)
    return b"|".join(b"-" if v is None else np.ascontiguousarray(v).tobytes() for v in values)


def _another(scene: Scene) -> Frame:
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


def _inner_buffers(scene: Scene) -> tuple[str, ...]:
    names = [
        name
        for epoch in scene.program.executed
        for name in written(epoch)
        if name not in scene.program.outputs and not scene.buffers[name].is_param
    ]
    unique = list(dict.fromkeys(names))
    step = max(1, len(unique) // _INNER)
    return tuple(unique[::step][:_INNER])
