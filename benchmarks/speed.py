"""All figures of speed in one run, against the peers, and the page that is made of them.

    python benchmarks/speed.py --models ../shared/data/models --json speed.json --page docs/speed.md

Times are CPU seconds (of children too), so that a busy computer disturbs less; both sides of a
ratio run in turns and the best of each counts. Parts whose peer is not installed are left out:
ethos-u-vela (estimate), ai-edge-litert (reference executor), unicorn (emulated board). `--only`
names parts; `--from` takes all others from files that earlier runs wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import compile_speed
import growth
import opstats_speed
import reference_speed

Row = dict[str, Any]
_LEAST = "at least "
VWW, YOLO = compile_speed.SMALL, compile_speed.LARGE[0]
FIXED = (
    "yolov8n_320_quant_pc_uf_od_coco-person.tflite",
    "st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite",
)
MANY_EPOCHS = "yolo11n_256_quant_pc_ii_seg_coco80-st.tflite"
MOBILENET = "mobilenet_v2_1.0_224_int8.tflite"
SWEPT = "kws_ref_model.tflite"
WHAT_IFS = 1000
SWEEP_RUNS = 10_000
SLICES, RECORDS = 300_000, 2_000_000
LEAST_MS = 1.0  # of LiteRT: below it, starting an op is all that is measured
_NPUSCOPE = "from npuscope.cli.main import console; console()"
_VELA = "import sys; from ethosu.vela.vela import main; sys.exit(main(sys.argv[1:]))"


# Measuring.


def children_s(command: list[str]) -> float:
    """CPU seconds of a process and those that it starts; byte code is kept, as installed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment = kept | {"PYTHONPYCACHEPREFIX": str(_cache())}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, check=True, env=environment, **quiet)  # type: ignore[call-overload]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cache() -> Path:
    return Path(tempfile.gettempdir()) / "npuscope-benchmark-bytecode"


def cpu_s(call: Callable[[], object]) -> float:
    mine, before = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.process_time() - mine + started


def row(what: str, ours: float, unit: str, aim: str, peer: float | None = None) -> Row:
    ratio = ours / peer if peer else None
    return {"what": what, "ours": ours, "unit": unit, "peer": peer, "ratio": ratio, "aim": aim}


# The parts.


def estimates(models: Path, runs: int) -> list[Row]:
    """estimate against regor, the C++ core of Vela, in one process each, in turns."""
    found = []
    for name, aim in ((VWW, "1.1x"), (YOLO, "0.3x")):
        turns = [_turn(models / name) for _ in range(runs)]
        ours = min(turn["npuscope"]["best_ms"] for turn in turns)
        core = min(turn["vela"]["core_ms"] for turn in turns)
        stem = Path(name).stem
        found.append(row(f"estimate of {stem}, regor", ours, "ms", aim, core))
        peaks = [min(turn[side]["peak_mb"] for turn in turns) for side in ("npuscope", "vela")]
        limit = "45 MB" if name == VWW else "55 MB"
        found.append(row(f"peak memory on {stem}, Vela", peaks[0], "MB", limit, peaks[1]))
    cold = {side: min(_cold(side, models / VWW) for _ in range(runs + 1)) for side in ("us", "it")}
    found.append(row("cold shell, Vela", cold["us"], "s", "0.8x", cold["it"]))
    return found


def _turn(path: Path) -> dict[str, dict[str, float]]:
    return {side: compile_speed.in_child(side, path, 8) for side in ("npuscope", "vela")}


def _cold(side: str, path: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        if side == "us":
            return children_s([sys.executable, "-c", _NPUSCOPE, "estimate", str(path)])
        options = ["--output-dir", folder, "--accelerator-config", "ethos-u55-128"]
        return children_s([sys.executable, "-c", _VELA, str(path), *options])


def fixes(models: Path, runs: int) -> list[Row]:
    from npuscope import fix

    return [
        row(f"fix of {Path(name).stem}", cpu_s(lambda name=name: fix(models / name)), "s", "2 s")
        for name in FIXED
    ]


def what_ifs(models: Path, runs: int) -> list[Row]:
    """Three timing keys at a time, each machine another one; some results are checked."""
    from npuscope.building import build
    from npuscope.machine.marks import KeyEffect
    from npuscope.machine.set_keys import machine_keys, with_value
    from npuscope.profiling.run import retimer

    made = build(models / MANY_EPOCHS, {})
    timer = retimer(made.program, made.machine, made.graph)
    keys = [k for k in machine_keys(made.machine).values() if k.effect is KeyEffect.TIMING]
    keys = [key for key in keys if isinstance(key.value, float)]
    generator, machines = random.Random(1), []
    for _ in range(WHAT_IFS):
        machine = made.machine
        for key in generator.sample(keys, 3):
            machine = with_value(machine, key, key.value * generator.uniform(0.3, 3.0))
        machines.append(machine)
    seconds = min(cpu_s(lambda: timer.times(machines)) for _ in range(runs))
    one_by_one = cpu_s(lambda: [timer.estimate(machine) for machine in machines[:50]])
    for machine, found in list(zip(machines, timer.times(machines), strict=True))[::50]:
        if timer.estimate(machine).total_ms != found.total_ms:
            raise SystemExit("times of many machines are not those of one")
    epochs = len(made.program.executed)
    each = one_by_one * WHAT_IFS / 50
    what = f"{WHAT_IFS} what-ifs of {epochs} epochs, one by one"
    return [row(what, seconds, "s", "1 s", each), *sweeps(models)]


def sweeps(models: Path) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        spec, store = Path(folder, "sweep.toml"), Path(folder, "sweep.jsonl")
        head = f"models = [{json.dumps(str((models / SWEPT).resolve()))}]\n"
        clocks = (f"[[clocks]]\nnpu_mhz = {500 + n / 16}\n" for n in range(SWEEP_RUNS))
        spec.write_text(head + "".join(clocks))
        command = [sys.executable, "-c", _NPUSCOPE, "sweep", str(spec), "-o", str(store)]
        start = time.monotonic()
        spent = children_s([*command, "--jobs", "2"])
        wall = time.monotonic() - start
    what = f"sweep of {SWEEP_RUNS} timing-only runs of {Path(SWEPT).stem}"
    return [
        row(f"{what}, CPU of all processes", spent, "s", "40 s on two cores"),
        row(f"{what}, by the clock", wall, "s", "20 s"),
    ]


def executors(models: Path, runs: int) -> list[Row]:
    """The reference executor against LiteRT's reference kernels, and NPU arithmetic against it."""
    found = []
    for path in sorted(models.glob("*.tflite")):
        one = reference_speed.in_child(path, runs, seeds=0)
        if "skipped" not in one and one["litert_ms"] > LEAST_MS:
            what = f"inference of {path.stem}, LiteRT"
            found.append(row(what, one["ours_ms"], "ms", "1.0x", one["litert_ms"]))
    found.sort(key=lambda entry: -entry["ratio"])
    return [*_arithmetic(models / MOBILENET, runs), *found]


def _arithmetic(path: Path, runs: int) -> list[Row]:
    from npuscope.building import build
    from npuscope.ops.run import run
    from npuscope.sim.run import execute

    made = build(path, {})
    assert made.graph is not None
    name = made.graph.inputs[0]
    given = {name: reference_speed.seeded_input(made.graph.tensor(name), 0)}
    execute(made.program, given)
    ours, reference = [], []
    for _ in range(runs):
        ours.append(cpu_s(lambda: execute(made.program, given)))
        reference.append(cpu_s(lambda: run(made.graph, given)))  # type: ignore[arg-type]
    what = f"NPU arithmetic of {path.stem}, reference executor"
    return [row(what, 1e3 * min(ours), "ms", "3x", 1e3 * min(reference))]


def boards(models: Path, runs: int) -> list[Row]:
    from npuscope import compile, package

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = cpu_s(lambda: compile(models / YOLO, folder / "built", relocatable=True))
        package(folder / "built", folder / "image")
        (image,) = (folder / "image").glob("*_rel.bin")
        ran = children_s([sys.executable, "-c", _NPUSCOPE, "run", str(image)])
    stem = Path(YOLO).stem
    return [
        row(f"compile of {stem} with its files", built, "s", ""),
        row(f"emulated inference of {stem}, with the start of the board", ran, "s", "10 s"),
    ]


def many_cores(models: Path, runs: int) -> list[Row]:
    """Stats buffers and traces, beside json.dumps and orjson; growth of the compiler."""
    cases = ("decode", "perfetto", "chrome", "json_dumps", "orjson")
    rates = {case: _rate(case, runs) for case in cases}
    chrome = "Chrome trace"
    return [
        row("stats buffers decoded and summed", rates["decode"], "M records/s", "at least 15"),
        row("Perfetto trace", rates["perfetto"], "M slices/s", "at least 1"),
        row(f"{chrome}, json.dumps", rates["chrome"], "M slices/s", "", rates["json_dumps"]),
        row(f"{chrome}, orjson", rates["chrome"], "M slices/s", "at least 2.5x", rates["orjson"]),
        _transformer(),
    ]


def _rate(case: str, runs: int) -> float:
    options = argparse.Namespace(slices=SLICES, records=RECORDS, runs=runs)
    return float(opstats_speed.in_child(case, options)["items_per_s"]) / 1e6


def _transformer() -> Row:
    """Four times the layers may take 4.8 times as long."""
    from many_core.nets import graph_of
    from many_core.public_nets import bert
    from npuscope.families.many_core.compiler.options import CoreCompileOptions
    from npuscope.families.many_core.compiler.pipeline import compile_graph
    from npuscope.families.many_core.machine import load_core_machine

    machine, options = load_core_machine(), CoreCompileOptions(cores=16, stats_level=70)
    found = {}
    for layers in (3, 12):
        graph = graph_of(bert(layers, 1, 128))
        found[layers] = cpu_s(lambda graph=graph: compile_graph(graph, machine, options))
    what = "BERT-base of 12 layers compiled for 16 cores, of 3 layers"
    return row(what, found[12], "s", "4.8x", found[3])


def grown(models: Path, runs: int) -> list[Row]:
    return growth.rows(1)


# peers that a part needs, by package
PARTS: dict[str, tuple[Callable[[Path, int], list[Row]], str]] = {
    "estimate": (estimates, "ethosu"),
    "growth": (grown, "ai_edge_litert"),
    "fix": (fixes, "numpy"),
    "what-if": (what_ifs, "numpy"),
    "executors": (executors, "ai_edge_litert"),
    "boards": (boards, "unicorn"),
    "many-core": (many_cores, "numpy"),
}


# The page.

_HEAD = """# How fast it is

Made by `python benchmarks/speed.py --page docs/speed.md`; do not edit. Times are CPU seconds, the
best of several runs; both sides of a ratio ran in turns{host}.
A ratio is npuscope's figure over that of the peer, which the row names after the comma.
What misses its aim is marked.

"""
_TITLES = {
    "estimate": "Reading, compiling and timing, against Vela",
    "growth": "Growth with the network",
    "fix": "`fix`",
    "what-if": "Machines that differ in timing",
    "executors": "Inferences on the computer",
    "boards": "Emulated board",
    "many-core": "Many cores",
}


def page(found: dict[str, list[Row]], host: str) -> str:
    parts = [_HEAD.format(host=host)]
    for name, rows in found.items():
        parts.append(f"## {_TITLES[name]}\n\n")
        cells = growth.table(rows) if name == "growth" else _cells(rows)
        parts.append(_marked_down(cells))
        if name == "growth":
            missed = ", ".join(growth.missed(rows)) or "none"
            parts.append(
                f"\n5 times the convolutions may take {growth.AIM_TIMES:g} times as long, "
                f"{growth.LARGEST} ops {growth.AIM_LARGEST_S:g} s. Missed: {missed}. "
                "Stages are parts of estimate and of what follows it.\n"
            )
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _cells(rows: list[Row]) -> list[list[str]]:
    lines = [["what", "npuscope", "peer", "ratio", "aim", ""]]
    for entry in rows:
        peer = f"{entry['peer']:.3g} {entry['unit']}" if entry["peer"] else ""
        ratio = f"{entry['ratio']:.2f}" if entry["ratio"] else ""
        ours = f"{entry['ours']:.3g} {entry['unit']}"
        lines.append([entry["what"], ours, peer, ratio, entry["aim"], _missed(entry)])
    return lines


def _missed(entry: Row) -> str:
    if not entry["aim"]:
        return ""
    least, aim = entry["aim"].startswith(_LEAST), entry["aim"].removeprefix(_LEAST)
    found = entry["ratio"] if aim.endswith("x") else entry["ours"]
    number = float(aim.rstrip("x").split()[0])
    return "missed" if (found < number if least else found > number) else ""


def _marked_down(cells: list[list[str]]) -> str:
    head, *rest = ["| " + " | ".join(line) + " |\n" for line in cells]
    return head + "|" + "---|" * len(cells[0]) + "\n" + "".join(rest)


def _host() -> str:
    load = os.getloadavg()[0]
    return f" on {os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
    parser.add_argument("--models", type=Path, default=shared, help="folder of models")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="parts to run")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    parser.add_argument(
        "--from", type=Path, nargs="*", default=[], dest="known", help="rows of earlier runs"
    )
    parser.add_argument("--page", type=Path, help="page to make of them")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for file in options.known:
        found |= json.loads(file.read_text())
    every = [] if options.known else list(PARTS)
    for name in every if options.only is None else options.only:
        part, package = PARTS[name]
        if find_spec(package) is None:
            print(f"{name}: left out, {package} is not installed", file=sys.stderr)
            continue
        found[name] = part(options.models, options.runs)
        cells = growth.table(found[name]) if name == "growth" else _cells(found[name])
        print("\n".join("  ".join(line) for line in cells), flush=True)
    found.setdefault("host", _host())
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.page:
        parts = {name: found[name] for name in PARTS if name in found}
        options.page.write_text(page(parts, found["host"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
