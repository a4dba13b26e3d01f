"""Clients on served virtual boards: do all checks pass, on every line and every kind of board?

    python benchmarks/board_clients.py npuscope CLIENTS/scripts/ai_runner/stm_ai_runner \\
        --source a.tflite --source b.tflite --source c.onnx --python CLIENTS/venv/bin/python

A client is `npuscope`, our own, or the folder of a vendor's Python package `stm_ai_runner`, which
is run as it is by `--python`, an interpreter with what it needs (numpy below 2.3, protobuf 3.20,
pyserial, tqdm, colorama). A npu_profiler.py in the folder `examples` beside the package is run too.

The networks of all sources lie on one board; of the models every second one without epoch
controller, builds of a vendor's compiler as they are. Outputs
are compared with those of the network alone on the simulator. A cell tells how many of the checks
passed, "-" what a client cannot do by itself. The exit code is 1 when a check failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

NPUSCOPE = "import sys; from npuscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
LINES = {"pty": ("--pty",), "tcp": ("--tcp", "0")}
BOARDS = {"simulated": (), "emulated": ("--emulated",)}
LIMIT_S = 1800
OURS = "npuscope"

# Run parameters, and what each counter option adds to the lines of every node.
MODES = {"IO_ONLY": 1, "PER_LAYER": 3, "PER_LAYER_WITH_DATA": 7, "PERF_ONLY": 0x209}
EVERY_NODE = ("evt_pre_start", "evt_post_end", "mcu_cycles")
CACHE = ("npu_cache:r", "npu_cache:w")
COUNTED: dict[int, tuple[str, ...]] = {
    0x01: ("npu_cycles",),
    0x02: ("npu_cycles", "streng_active:max"),
    0x04: ("npu_cycles",),
    0x08: ("port0:burst:w", "port0:burst:r", "port1:burst:w", "port1:burst:r", "portx:burst:rw"),
    0x10: CACHE,
    0x31: ("npu_cycles", "streng_active:max:i", *CACHE),
    0x51: ("npu_cycles", "streng_active:max:o", *CACHE),
}

Outputs = list[np.ndarray]
Lines = list[list[str]]  # by node
# What, on which network, and what went wrong: "" is nothing, None that the client cannot tell.
Result = tuple[str, str, str | None]


class Client(Protocol):
    """What is asked of a client; `lines` of a run is None where it does not keep them."""

    names: list[str]

    def nodes(self, name: str) -> int: ...

    def run(
        self, name: str, inputs: Outputs, mode: str, option: int
    ) -> tuple[Outputs, int, Lines | None]: ...

    def close(self) -> None: ...


class Vendors:
    """AiRunner of the folder that is on the path."""

    def __init__(self, address: str) -> None:
        from stm_ai_runner import AiRunner

        self._modes = AiRunner.Mode
        self._runner = AiRunner()
        self._runner.connect(address)
        if not self._runner.is_connected:
            raise RuntimeError(str(self._runner.get_error()))
        self.names = list(self._runner.names)

    def nodes(self, name: str) -> int:
        return int(self._runner.get_info(name)["n_nodes"])

    def run(
        self, name: str, inputs: Outputs, mode: str, option: int
    ) -> tuple[Outputs, int, Lines | None]:
        asked = {"mode": self._modes[mode], "disable_pb": True, "option": option}
        outputs, found = self._runner.invoke(inputs, name=name, **asked)
        nodes = found["c_nodes"]
        kept = all("extra" in node for node in nodes)
        return outputs, len(nodes), [node["extra"][0] for node in nodes] if kept else None

    def close(self) -> None:
        self._runner.disconnect()


class Ours:
    """RemoteBoard, which compares each output with the board's checksum of its memory."""

    def __init__(self, address: str) -> None:
        from npuscope.boards.device import parse_descriptor
        from npuscope.boards.remote import RemoteBoard

        self._board = RemoteBoard.connect(parse_descriptor(address))
        self._networks = {network.name: network for network in self._board.info().networks}
        self.names = list(self._networks)

    def nodes(self, name: str) -> int:
        return self._networks[name].nodes

    def run(
        self, name: str, inputs: Outputs, mode: str, option: int
    ) -> tuple[Outputs, int, Lines | None]:
        from npuscope.boards.device import CounterOption, Request
        from npuscope.boards.wire.statistics import NODE, NodePlace, node_lines

        given = None if mode == "PERF_ONLY" else tuple(inputs)
        per_layer = mode.startswith("PER_LAYER")
        found = self._board.run(Request(name, given, per_layer, CounterOption(option)))
        # What it kept of each node, in the words in which it came.
        kept = [node_lines(node, NodePlace(0, 0), CounterOption(option)) for node in found.nodes]
        lines = [[line.removeprefix(NODE) for line in row] for row in kept]
        return list(found.outputs), len(found.nodes), lines

    def close(self) -> None:
        self._board.close()


# The host's side: in a process of its own, with the client's interpreter.


def host(client: str, address: str, case: Path) -> list[Result]:
    """All checks of one client on one board."""
    names = json.loads((case / "names.json").read_text(encoding="utf-8"))
    expected = {name: _case(case, index) for index, name in enumerate(names)}
    found: list[Result] = []
    for turn in ("first client", "next client"):
        connected = _opened(client, address)
        try:
            listed = "" if connected.names == names else f"lists {connected.names}"
            found.append(("lists all networks", turn, listed))
            for name in (*names, names[0]):
                found += _network(connected, name, *expected[name])
        finally:
            connected.close()
    return found


def _opened(client: str, address: str) -> Client:
    if client == OURS:
        return Ours(address)
    sys.path.insert(0, str(Path(client).parent))
    return Vendors(address)


def _case(case: Path, index: int) -> tuple[Outputs, Outputs]:
    with np.load(case / f"{index}.npz") as stored:
        names = sorted(stored.files)
        return tuple([stored[n] for n in names if n[0] == kind] for kind in "io")  # type: ignore[return-value]


def _network(client: Client, name: str, inputs: Outputs, outputs: Outputs) -> Iterator[Result]:
    for mode in MODES:
        yield mode, name, _tried(lambda mode=mode: _mode(client, name, inputs, outputs, mode))
    for option, keys in COUNTED.items():
        what = f"counters {option:#04x}"
        yield what, name, _tried(lambda o=option, k=keys: _counted(client, name, inputs, o, k))


def _tried(check: Callable[[], str | None]) -> str | None:
    try:
        return check()
    except Exception as error:  # whatever a foreign client raises is a failed check
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _mode(client: Client, name: str, inputs: Outputs, outputs: Outputs, mode: str) -> str:
    found, nodes, _ = client.run(name, inputs, mode, 0)
    wanted = client.nodes(name) if mode.startswith("PER_LAYER") else 0
    if nodes < wanted:
        return f"{nodes} nodes, expected {wanted}"
    if mode == "PERF_ONLY":
        return ""
    pairs = list(zip(found, outputs, strict=True))
    same = all(a.dtype == b.dtype and np.array_equal(a.ravel(), b.ravel()) for a, b in pairs)
    return "" if same else "other outputs"


def _counted(
    client: Client, name: str, inputs: Outputs, option: int, keys: tuple[str, ...]
) -> str | None:
    _, _, lines = client.run(name, inputs, "PER_LAYER", option)
    if lines is None:
        return None
    for node, kept in enumerate(lines):
        missing = [k for k in (*EVERY_NODE, *keys) if not any(line.startswith(k) for line in kept)]
        if missing:
            return f"node {node} has no {', '.join(missing)}"
    return ""


# The board's side.


def main(words: Sequence[str] | None = None) -> int:
    options = _arguments(words)
    if options.host:
        client, address, case = options.host
        print(json.dumps(host(client, address, Path(case))))
        return 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="npuscope-clients-") as name:
        case = Path(name)
        sources = _prepared(options.source, case)
        for client in (c if c == OURS else str(Path(c).resolve()) for c in options.clients):
            print(f"\n{client}")
            failed += _table(client, options.python, sources, case)
    return 1 if failed else 0


def _prepared(sources: Sequence[Path], case: Path) -> list[Path]:
    """Builds of all sources, and random inputs with the outputs that belong to them."""
    from npuscope import building
    from npuscope.boards.device import Request, random_values
    from npuscope.boards.simulated import SimulatedBoard
    from npuscope.report.build_files import write_network

    built, random = [], np.random.default_rng(0)
    for index, source in enumerate(sources):
        if building.is_program(source):  # as its compiler left it
            folder, made = source.resolve(), building.build(source, {})
        else:
            folder = case / str(index) / source.stem
            starts = {"relocatable": True, "epoch_controller": index % 2 == 0}
            made = building.build(source, starts)
            write_network(made, folder)
        board = SimulatedBoard(made.program, made.machine)
        (network,) = board.info().networks
        inputs = [random_values(random, np.dtype(t.dtype), t.shape) for t in network.inputs]
        outputs = board.run(Request(network.name, tuple(inputs))).outputs
        named = {f"i{i:03}": v for i, v in enumerate(inputs)}
        np.savez(case / f"{index}.npz", **named, **{f"o{i:03}": v for i, v in enumerate(outputs)})
        built.append(folder)
    return built


def _table(client: str, python: str, sources: Sequence[Path], case: Path) -> int:
    columns: dict[str, list[Result]] = {}
    for board, board_words in BOARDS.items():
        for line, line_words in LINES.items():
            with _served(*map(str, sources), *board_words, *line_words) as told:
                names = json.dumps(told["networks"])
                (case / "names.json").write_text(names, encoding="utf-8")
                columns[f"{board} {line}"] = _asked(client, python, told, case)
    _show(columns)
    failures = [(where, row) for where, rows in columns.items() for row in rows if row[2]]
    for where, (what, name, error) in dict.fromkeys(failures):
        print(f"  {where}: {what}, {name}: {error}")
    return len(failures)


def _asked(client: str, python: str, told: dict[str, Any], case: Path) -> list[Result]:
    interpreter = sys.executable if client == OURS else python
    script = str(Path(__file__).resolve())
    done = _done([interpreter, script, "--host", client, told["address"], str(case)], case)
    if done.returncode:
        return [("connects", "", done.stderr.strip().splitlines()[-1])]
    found: list[Result] = [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]
    profiler = Path(client).parent / "examples" / "npu_profiler.py"
    if client != OURS and profiler.exists():
        found += (_profiled(python, profiler, told["address"], n, case) for n in told["networks"])
    return found


def _profiled(python: str, profiler: Path, address: str, name: str, case: Path) -> Result:
    """The vendor's profiler on one network; a missing network.c is a warning there."""
    words = ("-d", address, "-n", name, "-c", "none", "--no-color")
    done = _done([python, str(profiler), *words], case, PYTHONPATH=str(profiler.parents[1]))
    told = done.stdout + done.stderr
    failed = done.returncode or "Traceback" in told or "inf/s" not in told
    return "npu_profiler", name, (told.strip().splitlines() or ["silent"])[-1] if failed else ""


def _done(
    command: Sequence[str], folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """In a folder of its own: clients leave logs where they are."""
    python = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **python, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


@contextmanager
def _served(*words: str) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-c", NPUSCOPE, "board", "serve", *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as board:
        try:
            assert board.stdout is not None
            yield json.loads(board.stdout.readline())
        finally:
            board.send_signal(signal.SIGINT)


def _show(columns: dict[str, list[Result]]) -> None:
    checks = list(dict.fromkeys(what for rows in columns.values() for what, _, _ in rows))
    print(_line(("check", *columns)))
    for check in checks:
        print(_line((check, *(_cell(check, rows) for rows in columns.values()))))
    print(_line(("all", *(_cell("", rows) for rows in columns.values()))), flush=True)


def _cell(check: str, rows: list[Result]) -> str:
    about = [error for what, _, error in rows if check in ("", what) and error is not None]
    return f"{sum(not error for error in about)}/{len(about)}" if about else "-"


def _line(cells: Sequence[str]) -> str:
    name, *rest = cells
    return f"  {name:<22}" + "".join(f"{cell:>15}" for cell in rest)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", default=[OURS], help="npuscope, or folders")
    parser.add_argument(
        "--source", action="append", default=[], type=Path, help="a model or a build: one network"
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter for the clients")
    parser.add_argument("--host", nargs=3, default=None, help=argparse.SUPPRESS)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
