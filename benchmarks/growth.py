"""How time grows with the network, stage by stage: exponents of chains and of a branching network.

    python benchmarks/growth.py --json growth.json

Networks of 1000, 2000 and 5000 convolutions are written as .tflite files. Each verb and each stage
is timed in CPU seconds in a process of its own, the best of several. The exponent is the slope of
the logarithms between the smallest and the largest: 1 is linear, 2 is quadratic; the aim for the
verbs is at most 5.2 times the time for 5 times the convolutions. `chain` is small, `wide` leaves
the weights little room on the chip, `branches` joins three convolutions by sums again and again.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

SIZES = (1000, 2000, 5000)
LARGEST = 20_000  # ops, of a chain, for estimate alone
AIM_TIMES = 5.2
AIM_LARGEST_S = 20.0
NETWORKS = ("chain", "wide", "branches")


# Networks.


class Writer:
    """Convolutions of one shape, one behind or beside the other."""

    def __init__(self, channels: int = 16, size: int = 16) -> None:
        import numpy as np

        from models_tflite import TfliteWriter

        self.file = TfliteWriter()
        self.random = np.random.default_rng(1)
        self.channels, self.shape = channels, (1, size, size, channels)
        self.input = self.tensor("input")

    def tensor(self, name: str) -> int:
        return self.file.tensor(name, self.shape, scale=0.05, zero_point=-3)

    def conv(self, x: int, name: str, kernel: int = 3) -> int:
        import numpy as np

        from models_tflite import RELU, SAME

        n = self.channels
        values = self.random.integers(-127, 128, (n, kernel, kernel, n)).astype(np.int8)
        weights = self.file.constant(f"{name}/weights", values, scale=(0.01,) * n)
        bias = self.file.constant(f"{name}/bias", np.zeros(n, np.int32), scale=(0.0005,) * n)
        y = self.tensor(name)
        options = {"padding": SAME, "fusedActivationFunction": RELU}
        self.file.op("CONV_2D", [x, weights, bias], [y], **options)
        return y

    def add(self, a: int, b: int, name: str) -> int:
        y = self.tensor(name)
        self.file.op("ADD", [a, b], [y])
        return y

    def done(self, y: int) -> bytes:
        return self.file.finish([self.input], [y])


def chain(count: int) -> bytes:
    return _row(Writer(), count, 3)


def wide(count: int) -> bytes:
    return _row(Writer(size=160), count, 1)


def _row(writer: Writer, count: int, kernel: int) -> bytes:
    x = writer.input
    for number in range(count):
        x = writer.conv(x, f"conv{number}", kernel)
    return writer.done(x)


def branches(count: int) -> bytes:
    writer = Writer()
    x = writer.input
    for number in range(0, count, 3):
        a, b, c = (writer.conv(x, f"conv{number + n}", 1 + 2 * (n % 2)) for n in range(3))
        x = writer.add(writer.add(a, b, f"first{number}"), c, f"second{number}")
    return writer.done(x)


# One network in a process of its own.


def measured(path: Path, verbs: list[str]) -> dict[str, float]:
    """CPU seconds by verb and stage, the first warmed up by a small network."""
    import npuscope

    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "small.tflite")
        small.write_bytes(chain(2))
        npuscope.explain(small)
        found = {verb: _cpu_s(_verb(verb, path, Path(folder))) for verb in verbs}
    return found | (_stages(path) if len(verbs) > 1 else {})


def _cpu_s(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _verb(verb: str, path: Path, folder: Path) -> Callable[[], object]:
    import npuscope

    calls: dict[str, Callable[[], object]] = {
        "estimate": lambda: npuscope.estimate(path),
        "compile": lambda: npuscope.compile(path, folder / "built"),
        "explain": lambda: npuscope.explain(path),
        "profile": lambda: npuscope.profile(path),
        "html": lambda: npuscope.estimate(path, html=folder / "page.html"),
    }
    return calls[verb]


def _stages(path: Path) -> dict[str, float]:
    """The stages of estimate and what follows it, each on what the one before made."""
    from npuscope.advice.explain import explain
    from npuscope.building import Build, machine_for
    from npuscope.compiler.emit.program import emit_program
    from npuscope.compiler.lower.graph import lower_graph
    from npuscope.compiler.passes import run_passes
    from npuscope.compiler.place import place
    from npuscope.compiler.schedule import schedule
    from npuscope.files.load import load_model
    from npuscope.profiling.run import estimate, profile
    from npuscope.program.claims import with_claims
    from npuscope.report.estimate import estimate_text
    from npuscope.report.html.data import profile_page

    found: dict[str, float] = {}

    def stage(name: str, call: Callable[[], Any]) -> Any:
        start = time.process_time()
        made = call()
        found[f"  {name}"] = time.process_time() - start
        return made

    machine = machine_for({})
    graph = stage("reader", lambda: load_model(path))
    clean = stage("passes", lambda: run_passes(graph, machine))
    level = machine.generation.default_optimization
    lowered = stage("lowering", lambda: lower_graph(clean, machine, level))
    groups = stage("schedule", lambda: schedule(lowered, machine))
    program = stage("emission", lambda: emit_program(clean, lowered, groups, machine))
    program = stage("placement", lambda: place(program, machine))
    program = stage("claims", lambda: with_claims(program, machine))
    made = stage("timing", lambda: estimate(program, machine, graph))
    stage("counters", lambda: profile(program, machine, graph))
    told = stage("explaining", lambda: explain(Build(graph, machine, program), made))
    stage("report", lambda: estimate_text(made))
    stage("page", lambda: profile_page(made, told))
    return found


# All of them.


def rows(
    runs: int, sizes: Sequence[int] = SIZES, names: Sequence[str] = NETWORKS
) -> list[dict[str, Any]]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            times = [_best(Path(folder), name, count, runs) for count in sizes]
            found += [_grown(name, what, times, sizes) for what in times[0]]
        largest = _best(Path(folder), "chain", LARGEST, runs, ["estimate"])
        found.append({"network": "chain", "what": f"estimate of {LARGEST} ops", **_large(largest)})
    return found


VERBS = ("estimate", "compile", "explain", "profile", "html")


def _best(
    folder: Path, name: str, count: int, runs: int, verbs: list[str] | None = None
) -> dict[str, float]:
    path = folder / f"{name}{count}.tflite"
    path.write_bytes(globals()[name](count))
    command = [sys.executable, __file__, "--one", str(path), "--verbs", *(verbs or VERBS)]
    tries = []
    for _ in range(runs):
        child = subprocess.run(command, capture_output=True, text=True, check=True)
        tries.append(json.loads(child.stdout.splitlines()[-1]))
    return {what: min(one[what] for one in tries) for what in tries[0]}


def _grown(
    name: str, what: str, times: list[dict[str, float]], sizes: Sequence[int]
) -> dict[str, Any]:
    seconds = [one[what] for one in times]
    times_as_long = seconds[-1] / max(seconds[0], 1e-9)
    exponent = math.log(times_as_long) / math.log(sizes[-1] / sizes[0])
    return {
        "network": name,
        "what": what,
        "sizes": list(sizes),
        "seconds": seconds,
        "times": times_as_long,
        "exponent": exponent,
    }


def _large(times: dict[str, float]) -> dict[str, Any]:
    return {"sizes": [LARGEST], "seconds": [times["estimate"]], "times": None, "exponent": None}


def table(found: list[dict[str, Any]]) -> list[list[str]]:
    """Cells, the head first."""
    sizes = found[0]["sizes"]
    lines = [["network", "what", *(f"{size} convs s" for size in sizes), "times", "exponent"]]
    for row in found:
        seconds = [f"{value:.2f}" for value in row["seconds"]]
        seconds += [""] * (len(sizes) - len(seconds))
        more = [f"{row[key]:.2f}" if row[key] else "" for key in ("times", "exponent")]
        what = row["what"]
        what = f"stage: {what.strip()}" if what.startswith(" ") else what
        lines.append([row["network"], what, *seconds, *more])
    return lines


def missed(found: list[dict[str, Any]]) -> list[str]:
    verbs = [row for row in found if row["what"] in VERBS and row["times"] > AIM_TIMES]
    large = [row for row in found if row["times"] is None and row["seconds"][0] > AIM_LARGEST_S]
    return [f"{row['what']} of {row['network']}" for row in (*verbs, *large)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="processes per network; the best counts"
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="convolutions")
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--verbs", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.verbs)))
        return 0
    found = rows(options.runs, options.sizes, options.networks)
    for cells in table(found):
        print(f"{cells[0]:<10}{cells[1]:<24}" + "".join(f"{cell:>13}" for cell in cells[2:]))
    print(f"aim: {AIM_TIMES:g} times, {AIM_LARGEST_S:g} s: {', '.join(missed(found)) or 'met'}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
