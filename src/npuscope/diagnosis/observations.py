"""The next thing to look at: the cheapest observation that tells the remaining causes apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.fault import RIGHT
from npuscope.diagnosis.prospect import Prospect
from npuscope.diagnosis.result import NextLook
from npuscope.diagnosis.scene import BoardScene, Frame
from npuscope.diagnosis.search import Search
from npuscope.diagnosis.sights import Sight, SightView, short_names
from npuscope.diagnosis.trial import FaultTrial
from npuscope.program.calls import element_type
from npuscope.sim.run import written

_MOST_CAUSES = 16
_INNER = 6  # buffers along the network of which a dump is considered
_MORE = 4  # other inputs, where one says too little
_MOST_LOOKS = 3
_LOOKS_S = 8.0  # for the runs that tell what looks would show
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
_SESSION = (*_HALT, SightView.FLASH_WORD, SightView.MARKER)
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
        _SESSION,
    ),
)


def observations(
    scene: BoardScene, inner: Sequence[tuple[str, ...]], first: int
) -> list[Observation]:
    """Of a scene whose frames from `first` on are others than the user's; `inner` are buffers
    inside the network that are dumped together."""
    by_id = {row.id: _of_row(scene, row) for row in _ROWS}
    rows = [*_of_other_inputs(scene, first), *by_id.values()]
    for names in inner:
        dump = _of_buffers(scene, names)
        rows.append(dump)
        rows += [_together(by_id[id_], dump) for id_ in ("halt", "session")]
    return rows


def _of_row(scene: BoardScene, row: _Row) -> Observation:
    checksums = " ".join(f"--seen weights:{pool}=CRC32" for pool in scene.images)
    option = row.option.replace("CHECKSUMS", checksums).strip()
    sights = tuple(sight for view in row.views for sight in _sights(scene, view))
    return Observation(row.id, row.cost, row.words, option, sights)


def _of_other_inputs(scene: BoardScene, first: int) -> Iterator[Observation]:
    """Another one, and a few: outputs of few values need more of them."""
    option = "--inputs A --inputs B ... --outputs OUT_A --outputs OUT_B ..."
    rows = (
        ("second-input", 1, "run another input and dump its output", (SightView.OUTPUT,), 1),
        ("more-inputs", 2, "run MANY other inputs and dump their outputs", (SightView.OUTPUT,), 0),
        (
            "more-inputs-ram",
            4,
            "run MANY other inputs; of each dump the output in the program, and in the debugger "
            "the output buffer after the run",
            (SightView.OUTPUT, SightView.OUTPUT_RAM),
            0,
        ),
    )
    for id_, cost, words, views, most in rows:
        frames = range(first, min(len(scene.frames), first + (most or len(scene.frames))))
        sights = tuple(
            Sight(view, name, frame)
            for frame in frames
            for view in views
            for name in scene.program.outputs
        )
        if most or len(frames) > 1:
            words = words.replace("MANY", str(len(frames)))
            seen = " --seen output-ram@2=FILE ..." if len(views) > 1 else ""
            yield Observation(id_, cost, words, option + seen, sights)


def _of_buffers(scene: BoardScene, names: Sequence[str]) -> Observation:
    short = {name: text for text, name in short_names(scene.buffers).items()}
    places = []
    for name in names:
        epochs = [epoch.name for epoch in scene.program.executed if name in written(epoch)]
        places.append(f"the buffer '{short[name]}' behind {epochs[-1] if epochs else 'its epoch'}")
    return Observation(
        f"buffer:{'+'.join(names)}",
        4 + len(names),
        f"dump {' and '.join(places)}",
        " ".join(f"--seen buffer:{short[name]}=FILE" for name in names),
        tuple(Sight(SightView.BUFFER, name) for name in names),
    )


def _together(first: Observation, second: Observation) -> Observation:
    return Observation(
        f"{first.id}+{second.id}",
        first.cost + second.cost,
        f"{first.words}; {second.words}",
        f"{first.option} {second.option}",
        (*first.sights, *second.sights),
    )


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
    inner = [(name,) for name in _half_way(scene, states)]
    rows = {row.id.partition(":")[0]: row for row in observations(scene, inner, 0)}
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


# --- Where causes are to be told apart, or to be made certain ---


def next_looks(
    search: Search, matches: Sequence[FaultTrial], used: frozenset[str]
) -> tuple[NextLook, ...]:
    """What to look at, and then, until single causes remain that are certain, or no look says
    more: each is the cheapest of those that leave most causes certain, and most of them apart."""
    faults: dict[str, FaultTrial] = {}
    for trial in matches:
        faults.setdefault(trial.cause.id, trial)
    trials = list(faults.values())[:_MOST_CAUSES]
    wider, rows = _rows(search, trials, used)
    prospect = Prospect(search, wider, trials)
    looks: list[NextLook] = []
    while len(looks) < _MOST_LOOKS and not prospect.is_settled:
        outcomes = {row.id: prospect.after(row.sights) for row in rows}
        best = max(
            rows, key=lambda row: (*prospect.worth(outcomes[row.id]), -row.cost), default=None
        )
        if best is None or prospect.worth(outcomes[best.id]) == prospect.worth(prospect.state):
            break
        prospect.take(outcomes[best.id])
        splits = tuple(tuple(trials[n].cause.id for n in group) for group in prospect.groups)
        shows = _CONFIRMS if len(trials) == 1 else ""
        looks.append(
            NextLook(best.id, best.words, best.option, splits if len(trials) > 1 else (), shows)
        )
        rows.remove(best)
    return tuple(looks)


def _rows(
    search: Search, trials: Sequence[FaultTrial], used: frozenset[str]
) -> tuple[BoardScene, list[Observation]]:
    """Observations that the user has not made; where runs are long, only what those that are
    there already tell."""
    scene, runs = search.scene, len(trials) * (_MORE + 2)
    if search.is_late or scene.is_slow or runs * scene.seconds_of_run > _LOOKS_S:
        rows = observations(scene, (), len(scene.frames))
        return scene, [
            row
            for row in rows
            if row.id not in used and all(sight.view in _KNOWN for sight in row.sights)
        ]
    names = _between(scene)
    wider = scene.wider(lambda: [_another(scene, seed) for seed in range(1, _MORE + 1)], names)
    places = {*range(0, len(names), max(1, len(names) // _INNER))}
    places |= {place for trial in trials if (place := _departure(wider, trial, names)) is not None}
    inner = [tuple(names[max(0, place - 1) : place + 1]) for place in sorted(places)]
    rows = observations(wider, inner, len(scene.frames))
    return wider, [row for row in rows if row.id not in used]


def _departure(scene: BoardScene, trial: FaultTrial, names: Sequence[str]) -> int | None:
    """The first buffer that is not as on a right board."""
    seen, right = scene.inner(trial.fault), scene.inner(RIGHT)
    places = (
        place
        for place, name in enumerate(names)
        if name in seen and not np.array_equal(seen[name], right[name])
    )
    return next(places, None)


def _another(scene: BoardScene, seed: int) -> Frame:
    """A frame unlike the first one."""
    random = np.random.default_rng(seed)
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
