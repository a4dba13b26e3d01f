"""Verdicts of `validate`: builds with their models, wrong pairs, damaged weights, our own compiles.

    python benchmarks/validate_verdicts.py --builds FOLDER --models FOLDER [--only right,own,...]

* right: every network.c below the folder of builds that has its weights, with the model it was
  compiled from (found by the name that the compiler was given, below either folder).
* damaged: the same builds with a share of their weight bytes drawn anew.
* other: builds with another network of equal inputs and outputs: one that was found, or else the
  same layers with other weights, as another training gives them; shape: of other ones.
* own: every model, compiled here.

Prints a line for each and the counts by verdict. Expected are passed or differs for `right` and
`own`, wrong for `damaged` and `other`, refused (exit 3) for `shape`; whatever is not is marked.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from npuscope.building import build, compiled_copy, read_graph
from npuscope.errors import ModelError, NpuscopeError
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.profiling.same_network import refuse_other_network
from npuscope.profiling.validate import validate
from npuscope.program.model import Program
from npuscope.program.sources import read_program
from npuscope.structs import replace

_DAMAGED_SHARES = (0.25, 0.1, 0.02)
_HOLDS = ("passed", "differs")
_EXPECTED = {
    "right": _HOLDS,
    "own": _HOLDS,
    "damaged": ("wrong",),
    "other": ("wrong",),
    "shape": ("refused",),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--builds", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--only", default=",".join(_EXPECTED))
    parser.add_argument("--most", type=int, default=10, help="wrong pairs and damaged builds")
    parser.add_argument("--match", default="", help="only files whose path holds this")
    parser.add_argument("--json", type=Path, help="a line of JSON for each comparison")
    args = parser.parse_args()
    table = Table(args.json)
    kinds = args.only.split(",")
    pairs = []
    for name, program, graph in _builds(args) if args.builds and kinds != ["own"] else ():
        pairs.append((name, program, graph))
        if "right" in kinds:
            table.add("right", name, program, graph)
    pairs.sort(key=lambda pair: len(pair[1].epochs))  # the smallest first: they are quickest
    if "damaged" in kinds:
        for number, (name, program, graph) in enumerate(pairs[: args.most]):
            share = _DAMAGED_SHARES[number % len(_DAMAGED_SHARES)]
            table.add("damaged", f"{name}, {share:.0%}", damaged(program, share), graph)
    for kind, same in (("other", True), ("shape", False)):
        if kind in kinds:
            for name, program, graph in islice(_mixed(pairs, args.models, same), args.most):
                table.add(kind, name, program, graph)
    if "own" in kinds:
        for path in _models(args.models):
            if args.match in path.name:
                table.add_own(path)
    return table.show()


def _models(folder: Path) -> list[Path]:
    files = (f for f in folder.rglob("*") if f.suffix in (".tflite", ".onnx"))
    return sorted(files, key=lambda file: file.stat().st_size)


def _builds(args: argparse.Namespace) -> Iterator[tuple[str, Program, Graph]]:
    """Programs that can be executed, each source once, with their networks."""
    models: dict[str, Path] = {}
    for folder in (args.models, args.builds):
        models |= {_stem(path.stem): path for path in _models(folder)}
    seen: set[bytes] = set()
    for path in sorted(args.builds.rglob("*.c")):
        if args.match not in str(path) or b"LL_ATON_VERSION" not in path.read_bytes()[: 1 << 16]:
            continue
        name = str(path.relative_to(args.builds))
        try:
            program = read_program(path)
            stem = _stem(compiled_copy(program).name.removesuffix(".onnx"))
            model = models.get(stem)
            if program.missing_weights() or model is None:
                why = "no weights" if program.missing_weights() else f"no model {stem}"
                print(f"{'':8} left out {name}: {why}", flush=True)
                continue
            if (source := path.read_bytes()) not in seen:
                seen.add(source)
                yield name, program, read_graph(model, {})
        except NpuscopeError as error:
            print(f"{'':8} left out {name}: {error.message}", flush=True)


def _stem(name: str) -> str:
    """Without the version of the front end that wrote its own copy of the model."""
    return re.sub(r"_OE_\d+_\d+_\d+$", "", name).lower()


def damaged(program: Program, share: float) -> Program:
    """A share of the bytes of every weight buffer is drawn anew."""
    generator = np.random.default_rng(1)
    weights = {buffer.name for buffer in program.buffers if buffer.is_param}
    constants = {}
    for name, data in program.constants.items():
        raw = np.array(data, copy=True).reshape(-1).view(np.uint8)
        if name in weights:
            places = generator.random(raw.size) < share
            raw[places] = generator.integers(0, 256, int(places.sum()))
        constants[name] = raw
    return replace(program, constants=constants)


def _mixed(
    pairs: list[tuple[str, Program, Graph]], models: Path, same: bool
) -> Iterator[tuple[str, Program, Graph]]:
    """Builds with networks that they were not made from."""
    graphs = [graph for _, _, graph in pairs]
    for path in _models(models):
        try:
            graphs.append(read_graph(path, {}))
        except NpuscopeError:
            continue
    for name, program, own in pairs:
        if same:
            yield f"{name} with other weights", program, retrained(own)
        others = 0
        for graph in graphs:
            if graph.name == own.name or _weights(graph) == _weights(own):
                continue
            try:
                refuse_other_network(program, graph)
                fits = True
            except ModelError:
                fits = False
            if fits is same and others < 1:
                others += 1
                yield f"{name} with {graph.name}", program, graph


def retrained(graph: Graph) -> Graph:
    """The same layers, shapes and scales; the values of each weight tensor in another order."""
    generator = np.random.default_rng(1)
    other = graph.copy()
    for name, tensor in graph.tensors.items():
        if tensor.data is not None and tensor.data.ndim > 1:
            values = generator.permutation(tensor.data.reshape(-1)).reshape(tensor.data.shape)
            other.tensors[name] = replace(tensor, data=values)
    return other


def _weights(graph: Graph) -> int:
    return sum(t.data.size for t in graph.tensors.values() if t.data is not None)


class Table:
    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.counts: dict[str, Counter[str]] = {}
        self.unexpected: list[str] = []

    def add(self, kind: str, name: str, program: Program, graph: Graph) -> None:
        machine = load_machine(generation=program.generation)
        self._try(kind, name, lambda: (program, graph, machine))

    def add_own(self, path: Path) -> None:
        def compiled():  # type: ignore[no-untyped-def]
            made = build(path, {})
            return made.program, made.graph, made.machine

        self._try("own", path.name, compiled)

    def _try(self, kind: str, name: str, make: Callable[[], tuple]) -> None:  # type: ignore[type-arg]
        start = time.perf_counter()
        record: dict[str, object] = {"kind": kind, "name": name}
        try:
            found = validate(*make())
            verdict, sentence = str(found.verdict), found.sentence
            record |= {
                "compared": [found.layers_compared, found.layers_total, len(found.broken)],
                "outputs": [[o.rms_lsb, o.rounding_rms_lsb, o.std] for o in found.outputs],
                "worst": [
                    [one.epoch, one.origin, one.ops, one.near_share, one.channel_near_share]
                    for one in sorted(found.layers, key=lambda one: one.channel_near_share)[:2]
                ],
            }
        except NpuscopeError as error:
            verdict, sentence = "refused", str(error)
        except Exception as error:  # what reaches a user as a bug; the table goes on
            verdict, sentence = "bug", f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        mark = " " if verdict in _EXPECTED[kind] else "!"
        line = f"{mark}{kind:8} {seconds:5.0f} s {name}: {sentence}"
        print(line, flush=True)
        self.counts.setdefault(kind, Counter())[verdict] += 1
        if mark == "!":
            self.unexpected.append(line)
        if self.file:
            with self.file.open("a") as lines:
                lines.write(json.dumps(record | {"verdict": verdict, "seconds": seconds}) + "\n")

    def show(self) -> int:
        print()
        for kind, counts in self.counts.items():
            told = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
            print(f"{kind:8} {counts.total():3}: {told}")
        print(*self.unexpected, sep="\n")
        return 1 if self.unexpected else 0


if __name__ == "__main__":
    raise SystemExit(main())
