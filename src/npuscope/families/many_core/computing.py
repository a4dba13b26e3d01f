"""Inputs of a program from files, its outputs to files, as the vendor's runner has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.execute import execute
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.runner_files import check_folder, safe_name
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.shown import counted
from npuscope.whole_file import write_files


def compute_files(
    program: CoreProgram,
    model: str | Path | None,
    inputs: str | Path | Sequence[str | Path],
    folder: Path,
    machine: CoreMachine,
) -> tuple[Path, ...]:
    """One inference; floats have 32 bits in the files, whatever they have on the device."""
    if model is None:
        raise UsageError(
            "computing needs the model that the program was compiled from",
            where="--input-file",
            hint="--model FILE; a container holds no arithmetic",
        )
    check_folder(folder)
    layout = program.layout
    graph = load_model(model, {one.name: one.shape for one in program.inputs})
    options = CoreCompileOptions(
        layout.cores,
        len(program.devices),
        layout.stats_level,
        layout.stats_batch,
        layout.ddr_stats,
        layout.pmu,
        layout.network,
    )
    # A container has no arithmetic: the model is compiled again, and must give the same program.
    again = compile_graph(graph, machine, options)
    if again.layout.program_uuid != layout.program_uuid:
        raise UsageError(
            "the program was compiled from another model, or with other options",
            where="--model",
            hint="compile it again without -mos, -stats-level between levels, or --set",
        )
    paths = [inputs] if isinstance(inputs, str | Path) else inputs
    outputs = execute(again, read_inputs(graph, paths))
    files = {
        f"{safe_name(name)}-activation-0-inf-0.bin": np.ascontiguousarray(values).tobytes()
        for name, values in outputs.items()
    }
    return tuple(write_files(folder, files))


def read_inputs(graph: Graph, files: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """Raw values in the order of the network's inputs."""
    if len(files) != len(graph.inputs):
        wanted = ", ".join(graph.inputs)
        raise UsageError(
            f"expected {counted(len(graph.inputs), 'file')} ({wanted}), found {len(files)}",
            where="--input-file",
        )
    values = {}
    for name, path in zip(graph.inputs, files, strict=True):
        tensor = graph.tensors[name]
        dtype = np.dtype(np.float32 if tensor.dtype.is_float else tensor.dtype.numpy)
        data = read_bytes(path, MODEL)
        if len(data) != tensor.elements * dtype.itemsize:
            size = tensor.elements * dtype.itemsize
            raise FileError(
                f"expected {size} bytes for {name}, found {len(data)}", where=str(path),
                hint=f"{dtype.name} values, shape {list(tensor.shape)}, without a header",
            )  # fmt: skip
        values[name] = np.frombuffer(data, dtype).reshape(tensor.shape)
    return values
