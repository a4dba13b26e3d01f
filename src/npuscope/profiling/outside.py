"""Outside runtimes that check our reference executor, where they are installed (extra
`reference`): LiteRT's reference kernels for .tflite, onnxruntime without optimisation for .onnx.

They run in a process of their own: on some files LiteRT aborts, which must not take us along."""

from __future__ import annotations

import logging
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from npuscope import child
from npuscope.graph.model import Graph, Numerics
from npuscope.whole_file import work_folder

Arrays = Mapping[str, np.ndarray]
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
    with work_folder(Path(tempfile.gettempdir())) as folder:
        given, made = folder / "inputs.npz", folder / "outputs.npz"
        rows = [[sample[n] for n in graph.inputs] for sample in samples]
        np.savez(given, **_numbered(rows), **_scales(graph))  # type: ignore[arg-type]
        kernels = "any" if any_kernels else "reference"
        if not _run_child((name, kernels, str(model), str(given), str(made)), len(samples)):
            return None
        results = _listed(made, len(samples), len(graph.outputs))
    pairs = [zip(row, graph.outputs, strict=True) for row in results]
    return name, [[_quantized(value, graph, output) for value, output in row] for row in pairs]


def _run_child(arguments: tuple[str, ...], samples: int) -> bool:
    name, timeout_s = arguments[0], _SECONDS_A_SAMPLE * (samples + 1)
    try:
        done = child.run_module("npuscope.profiling.runtimes", *arguments, timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        _log.warning("%s did not finish: its comparison is left out", name)
        return False
    if done.returncode:
        _log.warning("%s failed on this model: its comparison is left out", name)
    return done.returncode == 0


def _numbered(rows: Sequence[Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
    places = ((r, c, value) for r, row in enumerate(rows) for c, value in enumerate(row))
    return {f"{row}_{column}": value for row, column, value in places}


def _listed(path: Path, rows: int, columns: int) -> list[list[np.ndarray]]:
    with np.load(path, allow_pickle=False) as file:
        return [[file[f"{row}_{column}"] for column in range(columns)] for row in range(rows)]


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
