"""Outside runtimes that check our reference executor, where they are installed (extra
`reference`): LiteRT's reference kernels for .tflite, onnxruntime without optimisation for .onnx.

They run in a process of their own: on some files LiteRT aborts, which must not take us along."""

from __future__ import annotations

import json
import logging
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from msgspec import Struct

import npuscope.child as child
from npuscope.graph.model import Graph, Numerics
from npuscope.profiling.runtimes import STATE_INSIDE
from npuscope.whole_file import work_folder

Arrays = Mapping[str, np.ndarray]
Results = list[list[list[np.ndarray]] | None]  # by file, sample and output
_MODULE = "npuscope.profiling.runtimes"
_PACKAGES = {Numerics.LITERT: ("litert", "ai_edge_litert"), Numerics.QDQ: ("onnxruntime",) * 2}
_SECONDS_A_SAMPLE = 120
_log = logging.getLogger(__name__)


def installed_runtime(graph: Graph) -> str | None:
    """The one that can run this network's file."""
    name, package = _PACKAGES[graph.numerics]
    return name if find_spec(package) else None


def outside_outputs(
    model: Path | None, graph: Graph, samples: Sequence[Arrays], any_kernels: bool = False
) -> tuple[str, list[list[np.ndarray]]] | None:
    """(runtime's name, outputs in graph order per sample), or None where there is none.

    `any_kernels` lets LiteRT use its optimised ones where it has no reference kernel.
    """
    name = installed_runtime(graph)
    if model is None or name is None:
        return None
    rows = outside_runs([OutsideRun(model, graph, samples)], any_kernels)[0]
    return None if rows is None else (name, rows)


class OutsideRun(Struct, frozen=True):
    """A file with its network, on some samples."""

    model: Path
    graph: Graph
    samples: Sequence[Arrays]


def outside_runs(runs: Sequence[OutsideRun], any_kernels: bool = False) -> Results:
    """Files for one runtime, which has to be installed: the outputs of each, None where it fails.

    They share a process, because to start one takes longer than most networks.
    """
    results: Results = []
    with work_folder(Path(tempfile.gettempdir())) as folder:
        files = [_write_inputs(folder, number, run) for number, run in enumerate(runs)]
        while len(results) < len(runs):
            first = len(results)
            failure = _run_child(runs[first:], files[first:], any_kernels)
            for run, (_, outputs) in zip(runs[first:], files[first:], strict=True):
                if not outputs.exists():
                    break
                results.append(_results(run, outputs))
            if len(results) < len(runs):  # this one ended it; those behind it get another process
                _log.warning(failure, installed_runtime(runs[first].graph))
                results.append(None)
    return results


class RuntimeAhead:
    """A runtime that works while its caller does: it is given files one by one, and loads itself
    and runs them at once. Results are those of `outside_runs` with any kernels."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.runs = folder, list[OutsideRun]()
        self._process = child.start_module(
            _MODULE,
            name,
            "any",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._outputs: list[Path] = []

    def add(self, run: OutsideRun) -> None:
        inputs, outputs = _write_inputs(self.folder, len(self.runs), run)
        self.runs.append(run)
        self._outputs.append(outputs)
        words = [str(run.model), str(inputs), str(outputs)]
        assert self._process.stdin is not None
        with suppress(OSError):  # a file before this one has ended it
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()

    def results(self) -> Results:
        """Whatever it has not finished is asked of a process of its own."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_A_SAMPLE * sum(len(run.samples) + 1 for run in self.runs))
        pairs = zip(self.runs, self._outputs, strict=True)
        return [
            _results(run, outputs) if outputs.exists() else outside_runs([run], any_kernels=True)[0]
            for run, outputs in pairs
        ]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def runtime_ahead(name: str) -> Iterator[RuntimeAhead]:
    with work_folder(Path(tempfile.gettempdir())) as folder:
        ahead = RuntimeAhead(folder, name)
        try:
            yield ahead
        finally:
            ahead.close()


def outside_opens(name: str, models: Sequence[Path]) -> list[bool]:
    """Whether the runtime opens each file; they need not run."""
    return [_opens(name, model) for model in models]


def _opens(name: str, model: Path) -> bool:
    try:
        process = child.run_module(_MODULE, name, "open", str(model), timeout_s=_SECONDS_A_SAMPLE)
    except subprocess.TimeoutExpired:
        return False
    return process.returncode == 0


def _write_inputs(folder: Path, number: int, run: OutsideRun) -> tuple[Path, Path]:
    """The inputs in a file, and where the outputs will be."""
    inputs, outputs = folder / f"inputs{number}.npz", folder / f"outputs{number}.npz"
    rows = [[sample[n] for n in run.graph.inputs] for sample in run.samples]
    arrays = {f"{r}_{c}": value for r, row in enumerate(rows) for c, value in enumerate(row)}
    np.savez(inputs, **arrays, **_scales(run.graph))  # type: ignore[arg-type]
    return inputs, outputs


def _run_child(
    runs: Sequence[OutsideRun], files: Sequence[tuple[Path, Path]], any_kernels: bool
) -> str:
    """What to say of a file without outputs."""
    kernels = "any" if any_kernels else "reference"
    words = [str(installed_runtime(runs[0].graph)), kernels]
    for run, (inputs, outputs) in zip(runs, files, strict=True):
        words += [str(run.model), str(inputs), str(outputs)]
    timeout_s = _SECONDS_A_SAMPLE * sum(len(run.samples) + 1 for run in runs)
    try:
        process = child.run_module(_MODULE, *words, timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        return "%s did not finish: its comparison is left out"
    if process.returncode == STATE_INSIDE:
        return "%s keeps the variables of this network to itself: its comparison is left out"
    return "%s failed on this model: its comparison is left out"


def _results(run: OutsideRun, path: Path) -> list[list[np.ndarray]]:
    with np.load(path, allow_pickle=False) as file:
        return [
            [
                _quantized(file[f"{row}_{column}"], run.graph, output)
                for column, output in enumerate(run.graph.outputs)
            ]
            for row in range(len(run.samples))
        ]


def _scales(graph: Graph) -> dict[str, np.ndarray]:
    """By the place of an input: the graph's border may be the integer behind a boundary Q while
    the file wants float."""
    if graph.numerics is Numerics.LITERT:
        return {}
    quants = enumerate(graph.tensor(name).quant for name in graph.inputs)
    return {f"scale_{n}": np.array([q.scale, q.zero_point], np.float64) for n, q in quants if q}


def _quantized(values: np.ndarray, graph: Graph, name: str) -> np.ndarray:
    """The graph's border tensor is the integer in front of a boundary DQ: the model gives float."""
    tensor = graph.tensor(name)
    if tensor.quant is None or values.dtype.kind != "f":
        return values
    low, high = tensor.dtype.limits
    steps = np.rint(values / np.float32(tensor.quant.scale)) + tensor.quant.zero_point
    return np.asarray(np.clip(steps, low, high), tensor.dtype.numpy)
