"""Inputs of a program from files, its outputs to files, as the vendor's runner has them.

Inputs come as one file each, as lists of files (one line an inference), as all files of a folder,
or as JSON that maps files to names. Values have the types of the model's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct, field

from npuscope.bounded_file import CORE_PROGRAM, MODEL, VENDOR_JSON, parse_json, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.container import FILE_NAME
from npuscope.families.many_core.execute import execute
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.runner_files import check_folder, safe_name
from npuscope.families.many_core.sources import read_source, source_model
from npuscope.files.load import load_model
from npuscope.graph.model import Graph, Numerics, Tensor
from npuscope.shown import counted
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.whole_file import write_files

Values = dict[str, np.ndarray]


class InputSources(Struct, frozen=True):
    """Where inputs come from; with none of them they are random."""

    files: tuple[str | Path, ...] = ()
    file_list: str | Path | None = None
    folder: str | Path | None = None
    json: str | Path | None = None
    seed: int = 0


class OutputSamples(Struct, frozen=True):
    """Which inferences' outputs are written, and where."""

    folder: Path
    start: int = 0
    count: int = 1


def compute_files(
    program: CoreProgram,
    container: Path,
    model: str | Path | None,
    machine: CoreMachine,
    inputs: InputSources,
    outputs: OutputSamples,
) -> tuple[Path, ...]:
    """Outputs of some inferences, in the types that the model's file states."""
    check_folder(outputs.folder, "--write-output-dir")
    path, options = _model_and_options(program, container, model)
    graph = load_model(path, {one.name: one.shape for one in program.inputs})
    again = compile_graph(graph, machine, replace(options, network=program.layout.network))
    if again.layout.program_uuid != program.layout.program_uuid:
        raise UsageError(
            "the program was compiled from another model, or for another machine",
            where="--model",
            hint="compile it again, or give --set and --machine as then",
        )
    types = border_types(path, graph)
    values = [
        {name: _values(graph.tensors[name], types[name], path) for name, path in files.items()}
        for files in _input_files(graph, inputs)
    ] or [_random(graph, inputs.seed)]
    results = {}
    for number in range(outputs.start, outputs.start + outputs.count):
        for name, value in execute(again, values[number % len(values)]).items():
            data = as_in_file(graph.tensors[name], value, types[name])
            results[f"{safe_name(name)}-activation-0-inf-{number}.bin"] = data.tobytes()
    return tuple(write_files(outputs.folder, results))


def _model_and_options(
    program: CoreProgram, container: Path, model: str | Path | None
) -> tuple[Path, CoreCompileOptions]:
    """A container has no arithmetic: the model is compiled again, and must give its program."""
    file = container / FILE_NAME if container.is_dir() else container
    source = read_source(read_bytes(file, CORE_PROGRAM))
    if source is None:
        if model is None:
            raise UsageError(
                "computing needs the model that the program was compiled from",
                where="--input-file",
                hint="--model FILE; a container holds no arithmetic",
            )
        layout = program.layout
        return Path(model), CoreCompileOptions(
            layout.cores,
            len(program.devices),
            layout.stats_level,
            layout.stats_batch,
            layout.ddr_stats,
            layout.pmu,
        )
    return Path(model) if model else source_model(source, file.parent), source.options


# --- Types: a network may quantize what its file has as floats ---


def border_types(path: Path, graph: Graph) -> dict[str, np.dtype[np.generic]]:
    """Of inputs and outputs, as the file states them."""
    plain = {name: graph.tensors[name].dtype.numpy for name in (*graph.inputs, *graph.outputs)}
    if graph.numerics is not Numerics.QDQ:
        return plain
    from npuscope.files.onnx.file_graph import OnnxFileGraph

    file = OnnxFileGraph.parse(read_bytes(path, MODEL), path.parent)
    stated = {name: file.type(name) for name in plain}
    return {
        name: np.dtype(stated[name]) if stated[name] in _TYPES else dtype
        for name, dtype in plain.items()
    }


_TYPES = ("float16", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def as_in_network(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    if tensor.quant is None or tensor.dtype.is_float or values.dtype.kind != "f":
        return values.astype(tensor.dtype.numpy)
    scale, point = np.float32(tensor.quant.scale), tensor.quant.zero_point
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.rint(values.astype(np.float32) / scale) + np.float32(point)
        limited: np.ndarray = np.clip(np.nan_to_num(steps), *tensor.dtype.limits)
    return limited.astype(tensor.dtype.numpy)


def as_in_file(tensor: Tensor, values: np.ndarray, dtype: np.dtype[np.generic]) -> np.ndarray:
    if tensor.quant is not None and dtype.kind == "f" and values.dtype.kind != "f":
        scale, point = np.float32(tensor.quant.scale), tensor.quant.zero_point
        values = (values.astype(np.float32) - np.float32(point)) * scale
    return np.ascontiguousarray(values.astype(dtype))


# --- Files of inputs ---


class BoundFile(Struct, frozen=True, rename="kebab"):
    """A file of --aic-batch-json-input, for one input or output."""

    path: str
    map_to: str
    io_direction: str = "in"


class BoundFiles(Struct, frozen=True):
    """One list of files per inference."""

    io_files: list[list[BoundFile]] = field(name="IO-files")


def _input_files(graph: Graph, inputs: InputSources) -> list[dict[str, Path]]:
    """Input by input the file of each inference; none where values are random."""
    if inputs.json is not None:
        return _bound(graph, Path(inputs.json))
    if inputs.file_list is not None:
        where = Path(inputs.file_list)
        text = read_bytes(where, VENDOR_JSON).decode(errors="replace")
        lines = [line.split(",") for line in text.splitlines() if line.strip()]
        if not lines:
            raise FileError("names no files", where=safe_terminal(str(where)))
        return [_in_order(graph, [word.strip() for word in line]) for line in lines]
    if inputs.folder is not None:
        files = sorted(path for path in Path(inputs.folder).glob("*") if path.is_file())
        if not files:
            raise FileError("has no files", where=safe_terminal(str(inputs.folder)))
        return [_in_order(graph, [path]) for path in files]
    return [_in_order(graph, inputs.files)] if inputs.files else []


def _in_order(graph: Graph, files: Sequence[str | Path]) -> dict[str, Path]:
    if len(files) != len(graph.inputs):
        names = ", ".join(graph.inputs)
        raise UsageError(
            f"expected {counted(len(graph.inputs), 'file')} ({names}), found {len(files)}",
            where="--input-file",
        )
    return {name: Path(file) for name, file in zip(graph.inputs, files, strict=True)}


def _bound(graph: Graph, path: Path) -> list[dict[str, Path]]:
    where = safe_terminal(str(path))
    try:
        rows = msgspec.convert(parse_json(read_bytes(path, VENDOR_JSON)), BoundFiles).io_files
    except (msgspec.ValidationError, ValueError) as error:
        raise FileError(f"is no list of inputs: {error}", where=where) from None
    if not rows:
        raise FileError("names no files", where=f"{where}: $.IO-files")
    samples = []
    for row in rows:
        files = {one.map_to: path.parent / one.path for one in row if one.io_direction == "in"}
        absent = [name for name in graph.inputs if name not in files]
        if absent:
            raise FileError(f"has no file for input '{safe_terminal(absent[0])}'", where=where)
        samples.append({name: files[name] for name in graph.inputs})
    return samples


def _values(tensor: Tensor, dtype: np.dtype[np.generic], path: Path) -> np.ndarray:
    data, size = read_bytes(path, MODEL), tensor.elements * dtype.itemsize
    if len(data) != size:
        raise FileError(
            f"expected {size} bytes for {tensor.name}, found {len(data)}",
            where=str(path),
            hint=f"{dtype.name} values, shape {list(tensor.shape)}, without a header",
        )
    return as_in_network(tensor, np.frombuffer(data, dtype).reshape(tensor.shape))


def _random(graph: Graph, seed: int) -> Values:
    """Bounded: ones and zeros where a network may take them for places."""
    random, values = np.random.default_rng(seed), {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype.is_float or tensor.quant is not None:
            values[name] = as_in_network(tensor, random.uniform(-1, 1, tensor.shape))
        else:
            values[name] = random.integers(0, 2, tensor.shape).astype(tensor.dtype.numpy)
    return values
