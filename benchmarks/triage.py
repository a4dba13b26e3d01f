"""Faults on a board against what `triage` says of them: right class first, no fault visible, single
cause after the proposed observation; with the confusion table.

    python benchmarks/triage.py [NETWORK...] [--built] [--guests] [--pairs] [--lossy] [--json FILE]

Three levels of evidence: one output (with the frame before), two inputs with their outputs, one
output with a buffer inside the network and checksums of the weights.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from triage_board import Board, Bytes, Kind, Seen
from triage_kinds import KINDS
from triage_networks import NETWORKS as BUILT
from triage_pairs import pairs_of, told_of_two, two_lines

from npuscope.blas_threads import one_thread
from npuscope.building import build
from npuscope.diagnosis.case import TriageCase
from npuscope.diagnosis.evidence import BoardEvidence, SeenDigest, SeenMarker, SeenValues
from npuscope.diagnosis.result import Triage, TriageVerdict
from npuscope.diagnosis.run import diagnose
from npuscope.diagnosis.scene import BoardScene, Frame
from npuscope.diagnosis.sights import Sight, SightView
from npuscope.program.model import Program
from npuscope.sim.memory import from_stored
from npuscope.sim.run import written
from npuscope.structs import replace

LEVELS = ("one output", "two inputs", "buffer and checksum")
KEPT_BYTES = 512 << 20
_MORE = 4  # inputs for a look
BUDGET_S = 5.0  # runs are kept from fault to fault, so that most searches need few


_SEVERAL = {
    "weights": ("checksums", "flash-word"),
    "halt": ("checksums", "input", "input-ram", "output-ram"),
    "session": ("halt", "flash-word", "marker"),
}


class Row(msgspec.Struct, frozen=True):
    network: str
    kind: str
    where: str
    level: str
    parameters: str
    visible: bool
    verdict: str
    first_class: tuple[str, ...]
    first_kinds: tuple[str, ...]
    right: bool
    single: bool | None  # after the first proposed observation
    single_two: bool | None  # after the first two
    single_all: bool | None  # after all of them
    looks: tuple[str, ...]
    seconds: float
    traces: tuple[str, ...] = ()  # of two faults at once, those without which it looks otherwise
    told: tuple[str, ...] = ()  # of two faults: what each answer said of them, look by look


class Bench:
    """One network: its frames, the build before, and scenes that keep their runs."""

    def __init__(
        self, name: str, path: Path, seed: int, lossy: bool = False, on_emulated: bool = False
    ) -> None:
        self.name = name
        self.lossy = lossy
        self.on_emulated = on_emulated
        # The emulated board loads relocatable images.
        built = build(path, {"generation": "4.0", "relocatable": on_emulated})
        self.program, self.machine = built.program, built.machine
        self.random = np.random.default_rng(seed)
        old = build(path, {"generation": "2.2"}).program
        self.other = shuffled(old, self.random)
        # Before, first, second, and those for a look at other inputs.
        self.frames = [self.frame() for _ in range(3 + _MORE)]
        asked = self.middle()
        self.scene = BoardScene(
            self.program,
            [self.logical(frame) for frame in self.frames[1:]],
            self.logical(self.frames[0]),
            self.other,
            asked,
        )
        self.scene.runs.most_bytes = KEPT_BYTES
        self.right = self.session(Board(self.program))

    def frame(self) -> dict[str, Bytes]:
        """Smooth, as pictures are: neighbours are alike."""
        board, frame = Board(self.program), {}
        for name in board.inputs:
            shape, dtype = board.shape(name), board.dtype(name)
            inner = range(1, len(shape) - 1)
            coarse = [max(1, n // 8) if axis in inner else n for axis, n in enumerate(shape)]
            values = self.random.uniform(0, 1, coarse)
            for axis in inner:
                places = np.linspace(0, coarse[axis] - 1, shape[axis])
                values = np.take(values, np.rint(places).astype(int), axis)
            values = 0.85 * values + 0.15 * self.random.uniform(0, 1, shape)
            if dtype.kind == "f":
                stored = (2 * values - 1).astype(dtype)
            else:
                limits = np.iinfo(dtype)
                stored = np.rint(limits.min + values * (limits.max - limits.min)).astype(dtype)
            frame[name] = board.stored(name, stored)
        return frame

    def logical(self, frame: dict[str, Bytes]) -> Frame:
        board = Board(self.program)
        return Frame(
            {
                name: from_stored(board.buffer(name), data.copy().view(board.dtype(name)))
                for name, data in frame.items()
            }
        )

    def middle(self) -> tuple[str, ...]:
        names = [
            n
            for epoch in self.program.executed
            for n in written(epoch)
            if n not in self.program.outputs and not self.program.buffer_map()[n].is_param
        ]
        return (names[len(names) // 2],) if names else ()

    def session(self, board: Board) -> list[Seen]:
        board.other = self.other
        return board.session(self.frames)[1:]

    def emulated(self, board: Board) -> list[Seen]:
        """The same on the emulated board: its firmware runs the network on changed weights and
        inputs. Faults between epochs cannot be set there."""
        from npuscope.boards.device import Request, parse_descriptor
        from npuscope.profiling.measure import RunSubject, opened
        from npuscope.program.network_c.writer_buffers import memory_shape

        program = replace(self.program, constants=board.constants())
        seen: list[Seen] = []
        before, results = self.frames[0], {}
        with opened(parse_descriptor("emulated"), RunSubject(program, self.machine)) as device:
            network = device.info().networks[0].name
            for frame in self.frames:
                given = {n: board.supplied(n, frame[n], before[n]) for n in board.inputs}
                found = {n: board.fetched(n, given[n], before[n]) for n in board.inputs}
                sent = tuple(
                    found[n].view(board.dtype(n)).reshape(memory_shape(board.buffer(n)))
                    for n in board.inputs
                )
                answer = device.run(Request(network, sent, per_layer=False)).outputs
                fresh = {
                    n: np.ascontiguousarray(values).reshape(-1).view(np.uint8)
                    for n, values in zip(board.outputs, answer, strict=True)
                }
                stored, read = board.finished(fresh, results or fresh)
                seen.append(Seen(read, stored, given, found, {}, fresh))
                before, results = frame, fresh
        return seen[1:]

    # --- Evidence ---

    def evidence(self, board: Board, seen: list[Seen], level: int) -> list[object]:
        rows: list[object] = []
        if level == 2:
            rows += [SeenDigest(Sight(SightView.WEIGHTS, p), board.crc(p)) for p in board.pools]
            rows += [
                SeenValues(Sight(SightView.BUFFER, name), seen[0].buffers[name])
                for name in self.scene.asked
                if name in seen[0].buffers
            ]
        for frame in range(2 if level == 1 else 1):
            rows += self.values(SightView.OUTPUT, seen[frame].output, frame)
        return rows

    def values(self, view: SightView, data: dict[str, Bytes], frame: int = 0) -> list[object]:
        board, rows = Board(self.program), []
        for name, values in data.items():
            typed = values.copy().view(board.dtype(name))
            lost = typed.size // 100 if self.lossy and view is SightView.OUTPUT else 0
            places = np.random.default_rng(frame).choice(typed.size, lost, replace=False)
            kept = np.delete(typed, places)
            rows.append(SeenValues(Sight(view, name, frame), kept, shorter=lost > 0))
        return rows

    def look(self, board: Board, seen: list[Seen], id_: str) -> list[object]:
        """What an observation shows on this board; some are several at once."""
        dumps = id_.partition("buffer:")[2]
        parts = [part for part in id_.removesuffix(f"buffer:{dumps}").split("+") if part]
        rows = [one for part in parts for one in self.looked(board, seen, part)]
        for name in dumps.split("+") if dumps else ():
            if name in seen[0].buffers:
                rows.append(SeenValues(Sight(SightView.BUFFER, name), seen[0].buffers[name]))
        return rows

    def looked(self, board: Board, seen: list[Seen], id_: str) -> list[object]:
        first = seen[0]
        if id_ in _SEVERAL:
            return [one for part in _SEVERAL[id_] for one in self.looked(board, seen, part)]
        match id_:
            case "checksums":
                return [SeenDigest(Sight(SightView.WEIGHTS, p), board.crc(p)) for p in board.pools]
            case "input":
                return self.values(SightView.INPUT, first.input)
            case "input-ram":
                return self.values(SightView.INPUT_RAM, first.input_ram)
            case "output-ram":
                return self.values(SightView.OUTPUT_RAM, first.output_ram)
            case "second-input":
                return self.values(SightView.OUTPUT, seen[1].output, 1)
            case "more-inputs":
                return self.others(seen, "output")
            case "more-inputs-ram":
                return [*self.others(seen, "output"), *self.others(seen, "output_ram")]
            case "again":
                twice = board.session(self.frames[:2], again=True)
                return self.values(SightView.AGAIN, twice[-1].output)
            case "marker":
                return [SeenMarker(frozenset(board.marker(self.frames[1])))]
            case "flash-word":
                word = np.array([board.flash_is_mapped], np.uint8)
                return [SeenValues(Sight(SightView.FLASH_WORD, ""), word)]
        raise ValueError(id_)

    def others(self, seen: list[Seen], field: str) -> list[object]:
        """Outputs of the inputs that are for looks."""
        view = SightView.OUTPUT if field == "output" else SightView.OUTPUT_RAM
        numbers = range(2, 2 + _MORE)
        return [one for n in numbers for one in self.values(view, getattr(seen[n], field), n)]

    def case(self, rows: list[object], used: frozenset[str] = frozenset()) -> TriageCase:
        order = (SightView.WEIGHTS, SightView.FLASH_WORD, SightView.INPUT, SightView.INPUT_RAM)
        cheap = [r for r in rows if getattr(getattr(r, "sight", None), "view", None) in order]
        rest = [r for r in rows if r not in cheap]
        scene = self.scene
        asked = {
            r.sight.name
            for r in rows
            if isinstance(r, SeenValues) and r.sight.view is SightView.BUFFER
        }
        if not asked <= set(scene.asked):
            scene = self.scene.wider(lambda: (), ())
        return TriageCase(scene, BoardEvidence((*cheap, *rest)), (), used)

    # --- One fault at one level ---

    def judge(self, kind: Kind, level: int, seed: int) -> Row:
        board = Board(self.program)
        board.other = self.other
        parameters = kind.install(board, np.random.default_rng(seed))
        seen = self.emulated(board) if self.on_emulated else self.session(board)
        rows = self.evidence(board, seen, level)
        plain = self.evidence(Board(self.program), self.right, level)
        visible = [_key(row) for row in rows] != [_key(row) for row in plain]
        used = frozenset(("weights",) if level == 2 else ("second-input",) if level == 1 else ())
        start = time.process_time()
        traces = self.traces(kind, level, seed, rows) if visible else ()
        result = diagnose(self.case(rows, used), budget_s=BUDGET_S)
        first = result.classes[0] if result.classes else None
        ids = tuple(part for one in first.suspects for part in one.id.split("+")) if first else ()
        kinds = first.kinds if first else result.points_to[:1]
        right = self.is_right(kind, visible, result, ids, kinds)
        single, single_two, single_all = None, None, None
        told: tuple[str, ...] = ()
        if kind.parts:
            shown = [part for part in kind.parts if part.name in traces]
            told = told_of_two(shown, result, self.looker(board, seen, rows, used))
        elif visible and right and ids:
            single = single_two = single_all = result.single
            extra: list[object] = []
            names = set(used)
            for number, look in enumerate(result.next_looks):
                extra += self.look(board, seen, look.id)
                names.add(look.id)
                again = diagnose(self.case([*rows, *extra], frozenset(names)), budget_s=BUDGET_S)
                left = tuple(one.id for c in again.classes[:1] for one in c.suspects)
                single_all = again.single and (not kind.causes or left[0] in kind.causes)
                if number == 0:
                    single = single_all
                if number < 2:
                    single_two = single_all
                if single_all:
                    break
        return Row(
            self.name,
            kind.name,
            kind.where,
            LEVELS[level],
            parameters,
            visible,
            result.verdict.value,
            ids,
            tuple(kinds),
            right,
            single,
            single_two,
            single_all,
            tuple(look.id for look in result.next_looks),
            time.process_time() - start,
            traces,
            told,
        )

    def looker(
        self, board: Board, seen: list[Seen], rows: list[object], used: frozenset[str]
    ) -> Callable[[str], Triage | None]:
        """Looks one after the other; None for one that the board here does not have."""
        have, names = list(rows), set(used)

        def look(id_: str) -> Triage | None:
            try:
                have.extend(self.look(board, seen, id_))
            except ValueError:
                return None
            names.add(id_)
            return diagnose(self.case(have, frozenset(names)), budget_s=BUDGET_S)

        return look

    def traces(self, kind: Kind, level: int, seed: int, rows: list[object]) -> tuple[str, ...]:
        """Those of two faults that the evidence shows: without the other, it would be as it is."""
        names = []
        for kept in kind.parts:
            random, board = np.random.default_rng(seed), Board(self.program)
            board.other = self.other
            for part in kind.parts:
                part.install(board if part is kept else Board(self.program), random)
            alone = self.evidence(board, self.session(board), level)
            if [_key(row) for row in alone] == [_key(row) for row in rows]:
                return (kept.name,)
            names.append(kept.name)
        return tuple(names)

    def is_right(
        self,
        kind: Kind,
        visible: bool,
        result: Triage,
        ids: tuple[str, ...],
        kinds: tuple[str, ...],
    ) -> bool:
        if not visible:
            return result.verdict is TriageVerdict.NO_FAULT
        if kind.causes:
            return bool(set(ids) & set(kind.causes))
        return kind.where in kinds


def _key(row: object) -> object:
    if isinstance(row, SeenValues):
        return row.sight, row.values.tobytes()
    return row


def shuffled(program: Program, random: np.random.Generator) -> Program:
    """The build before: the same network, trained otherwise."""
    constants = {
        name: random.permuted(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
        for name, data in program.constants.items()
    }
    return replace(program, constants=constants, model_file="before.tflite")


def report(rows: list[Row]) -> str:
    lines = []
    for level in LEVELS:
        mine = [row for row in rows if row.level == level]
        shown = [row for row in mine if row.visible]
        hidden = [row for row in mine if not row.visible]
        looked = [row for row in shown if row.right and row.first_class]
        lines.append(
            f"{level:<20} visible {len(shown):>4}: right class first {_share(shown, 'right')}; "
            f"hidden {len(hidden):>3}: no fault visible {_share(hidden, 'right')}; single cause "
            f"after one look {_share(looked, 'single')}, two {_share(looked, 'single_two')}, "
            f"all {_share(looked, 'single_all')}"
        )
        lines += two_lines([row.told for row in shown if row.told])
    lines.append("\nkind of fault: what was first, where it was visible (levels together)")
    for kind in dict.fromkeys(row.kind for row in rows):
        mine = [row for row in rows if row.kind == kind and row.visible]
        answers = Counter(row.first_class[0] if row.first_class else row.verdict for row in mine)
        right = sum(row.right for row in mine)
        text = ", ".join(f"{name} {count}" for name, count in answers.most_common(6))
        lines.append(f"{kind:<36} {right:>4} of {len(mine):<4} {text}")
    return "\n".join(lines)


def _share(rows: list[Row], field: str) -> str:
    good = sum(bool(getattr(row, field)) for row in rows)
    return f"{good} of {len(rows)} ({good / len(rows):.1%})" if rows else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", type=Path)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--built", action="store_true", help="the networks of triage_networks")
    parser.add_argument("--lossy", action="store_true", help="1 % of each output's bytes are lost")
    parser.add_argument("--pairs", action="store_true", help="two faults at once")
    parser.add_argument("--only", default="", help="names of built networks")
    parser.add_argument("--emulated", action="store_true", help="faults on the emulated board")
    parser.add_argument("--guests", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kinds = list(KINDS)
    networks = {path.name: path for path in options.networks}
    if options.built:
        chosen = options.only.split(",") if options.only else list(BUILT)
        networks |= {name: _saved(name, BUILT[name]()) for name in chosen}
    if options.guests:
        from triage_guests import KINDS as GUESTS
        from triage_guests import NETWORKS

        kinds += GUESTS
        for name, make in NETWORKS.items():
            data = make()
            networks[name] = data if isinstance(data, Path) else _saved(name, data)
    if options.pairs:
        kinds = list(pairs_of(kinds, options.seed))
    if options.emulated:
        kinds = [kind for kind in kinds if kind.where in ("weights", "input", "output")]
    if options.kinds:
        kinds = [kind for kind in kinds if kind.name in options.kinds.split(",")]
    rows: list[Row] = []
    for name, path in networks.items():
        bench = Bench(name, path, options.seed, options.lossy, options.emulated)
        for number, kind in enumerate(kinds):
            for level in range(2 if options.emulated else len(LEVELS)):
                rows.append(bench.judge(kind, level, options.seed * 1000 + number))
        mine = [row for row in rows if row.network == name]
        print(
            name,
            len(mine),
            sum(row.right for row in mine),
            f"{time.process_time():.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if options.json:
            options.json.write_text(
                json.dumps([msgspec.to_builtins(row) for row in rows], indent=1)
            )
    print(report(rows))


def _saved(name: str, data: bytes) -> Path:
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="triage"))
    path = folder / (name if name.endswith((".tflite", ".onnx")) else f"{name}.tflite")
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    with one_thread():
        main()
