"""A float ONNX file made ready to be quantized: fixed sizes, float32, an opset with per-channel
scales, batch normalisation and constants folded, a name for every node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from npuscope.errors import ModelError, NpuscopeError
from npuscope.files.load import load_model
from npuscope.files.onnx.file import decode, inline_own_functions
from npuscope.files.onnx.file_graph import OnnxFileGraph
from npuscope.files.onnx.float_file import folded_file
from npuscope.files.onnx.float_repairs import (
    add_computed_biases,
    copy_constant_outputs,
    inferred,
    own_biases,
    use_float32,
)
from npuscope.files.sizes import USUAL, Dims, Pins, static_shape

Fold = Callable[[bytes], bytes]  # constants of a model folded by a runtime
_OLDEST_OPSET = 13  # QuantizeLinear with an axis
_PREFERRED_OPSET = 17
_NEWEST_OPSET = 20  # of IR version 9, the last that the vendor's tools read
_OLDER_IR, _NEWEST_IR = 8, 9
_LOOPS = ("If", "Loop", "Scan")


def float_ready(
    data: bytes,
    path: Path,
    shapes: Mapping[str, Sequence[int]] | None,
    fold: Fold,
    notes: list[str],
) -> OnnxFileGraph:
    """The repairs in order; `notes` gets a sentence for each."""
    proto = decode(data)
    if proto.functions:
        proto = inline_own_functions(proto)
        notes.append("functions of the file were inlined")
    # Old exporters list weights among the inputs, as IR versions before 4 demand it.
    proto.ir_version = max(proto.ir_version, _OLDER_IR)
    constants = {entry.name for entry in proto.graph.initializer}
    for entry in [entry for entry in proto.graph.input if entry.name in constants]:
        proto.graph.input.remove(entry)
    use_float32(proto, notes)
    _fix_sizes(proto, _usual_sizes(proto, path, shapes), notes)
    try:
        proto = _with_opset(proto, notes)
    except ModelError:  # ops that the converter does not know may be gone in the float form
        proto = _with_opset(folded_file(proto, path, notes), notes)
    if _bodies(proto):  # branches whose condition only follows from sizes go
        with suppress(ModelError):  # a branch may not fit the sizes that were set
            proto = _with_folded_shapes(proto, fold)
    if kinds := _bodies(proto):
        raise ModelError(
            f"the model has {kinds[0]}: what is inside cannot be calibrated",
            hint="export one static graph without control flow",
        )
    proto = folded_file(proto, path, notes)
    _name_nodes(proto)
    proto = _with_folded_shapes(proto, fold)
    proto = _with_opset(proto, notes)
    proto = folded_file(proto, path, [])  # onnxruntime takes ops apart that it has no kernel for
    copy_constant_outputs(proto)
    add_computed_biases(proto)
    _name_nodes(proto)
    own_biases(proto)
    _tidy(proto)
    return OnnxFileGraph(inferred(proto))


def _bodies(proto: Any) -> list[str]:
    """Kinds of control flow in the model."""
    return sorted({node.op_type for node in proto.graph.node}.intersection(_LOOPS))


def _usual_sizes(proto: Any, path: Path, shapes: Mapping[str, Sequence[int]] | None) -> Pins:
    """Open sizes as the other verbs take them: the first that fit the network."""
    stated = {entry.name: _stated(entry) for entry in proto.graph.input}
    if all(isinstance(size, int) for dims in stated.values() for size in dims):
        return Pins(shapes)
    try:
        graph = load_model(path, shapes)
    except NpuscopeError:  # onnxruntime may still run it
        return Pins(shapes)
    for usual in USUAL:
        copy = type(proto)()
        copy.graph.input.extend(proto.graph.input)
        _fix_sizes(copy, Pins(shapes, usual), [])
        sizes = {entry.name: _stated(entry) for entry in copy.graph.input}
        if all(graph.tensors[name].shape == dims for name, dims in sizes.items()):
            return Pins(shapes, usual)
    return Pins(shapes)


def _fix_sizes(proto: Any, pins: Pins, notes: list[str]) -> None:
    from onnx import TensorProto

    stated = {entry.name: _stated(entry) for entry in proto.graph.input}
    pins.check_names(stated)
    changed = False
    for entry in proto.graph.input:
        tensor = entry.type.tensor_type
        real = tensor.elem_type == TensorProto.FLOAT
        shape = static_shape(entry.name, stated[entry.name], pins, notes, real=real)
        changed = changed or shape != tuple(stated[entry.name])
        for dim, size in zip(tensor.shape.dim, shape, strict=True):
            dim.dim_value = size
    if changed:  # what was stated for other sizes is inferred again
        del proto.graph.value_info[:]
        for entry in proto.graph.output:
            entry.type.tensor_type.ClearField("shape")


def _stated(entry: Any) -> Dims:
    dims = entry.type.tensor_type.shape.dim
    return tuple(d.dim_value if d.dim_value > 0 else d.dim_param or None for d in dims)


def _with_opset(proto: Any, notes: list[str]) -> Any:
    from onnx import version_converter

    versions = (int(e.version) for e in proto.opset_import if e.domain in ("", "ai.onnx"))
    version = next(versions, 0)
    if _OLDEST_OPSET <= version <= _NEWEST_OPSET:
        return proto
    try:
        converted_proto = version_converter.convert_version(proto, _PREFERRED_OPSET)
    except Exception as error:  # the converter raises what it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"opset {version} could not be converted to {_PREFERRED_OPSET}: {reason}",
            hint=f"export the model with opset {_PREFERRED_OPSET}",
        ) from error
    notes.append(f"opset {version} became {_PREFERRED_OPSET}")
    return converted_proto


def _with_folded_shapes(proto: Any, fold: Fold) -> Any:
    """By a runtime's basic optimisations: constants that only follow from sizes."""
    return decode(fold(inferred(proto).SerializeToString()))


def _name_nodes(proto: Any) -> None:
    """The quantizer tells nodes apart by name. A number that is new here may be that of a node
    behind: exporters number nodes as well."""
    names = {node.name for node in proto.graph.node}
    used: set[str] = set()
    for number, node in enumerate(proto.graph.node):
        if not node.name or node.name in used:
            fresh = (f"{node.op_type}_{place}" for place in count(number))
            node.name = next(name for name in fresh if name not in names and name not in used)
        used.add(node.name)


def _tidy(proto: Any) -> None:
    """Without constants that nobody reads, and domains that onnxruntime lists because it knows
    them."""
    proto.ir_version = min(proto.ir_version, _NEWEST_IR)
    read = {name for node in proto.graph.node for name in node.input}
    for entry in [e for e in proto.graph.initializer if e.name not in read]:
        proto.graph.initializer.remove(entry)
    used = {node.domain for node in proto.graph.node} | {"", "ai.onnx"}
    opsets = [entry for entry in proto.opset_import if entry.domain in used]
    del proto.opset_import[:]
    proto.opset_import.extend(opsets)
