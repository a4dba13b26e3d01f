"""The one way to open an outside runtime: results depend on the model, not on this CPU.

onnxruntime's optimised sessions compute quantized layers with integer kernels. On x86 without VNNI
these add pairs of unsigned times signed products in 16 bits, which saturate. Without optimisation
a QDQ model is computed in float32; where a file itself asks for an integer kernel, its weights
take the sign of its activations: the kernels of like signs are exact everywhere. What is left of
the CPU is the order in which float32 sums are rounded, which can move a result by a step.

LiteRT's reference kernels are plain loops; its default ones choose their arithmetic by CPU."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from npuscope.files.file_graph import FileGraph, FileNode

# Ops that multiply integers: places of what has the activations' type (their zero point is a
# constant, whose type is always known), of the weights and of the weights' zero point.
_PRODUCTS = {
    "QLinearConv": (2, 3, 5),
    "QLinearMatMul": (2, 3, 5),
    "QGemm": (2, 3, 5),
    "ConvInteger": (0, 1, 3),
    "MatMulInteger": (0, 1, 3),
}
_HALF = 128  # between int8 and uint8 of the same real value
_ONLY_FATAL = 4  # errors are raised anyway
# How the process ends where a runtime keeps variables to itself that are inputs of our network.
STATE_INSIDE = 3


class LitertKernels(Enum):
    """LiteRT's. The default ones are for what has no reference kernel, or a wrong one."""

    REFERENCE = "reference"
    DEFAULT = "default"


def litert_interpreter(
    model: str | bytes, kernels: LitertKernels = LitertKernels.REFERENCE, keep_all: bool = False
) -> Any:
    """An interpreter, ready to be given inputs. `keep_all`: tensors inside can be read too."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    types = {
        LitertKernels.REFERENCE: OpResolverType.BUILTIN_REF,
        LitertKernels.DEFAULT: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    }
    interpreter = Interpreter(
        **{"model_path" if isinstance(model, str) else "model_content": model},
        num_threads=1,
        experimental_op_resolver_type=types[kernels],
        experimental_preserve_all_tensors=keep_all,
    )
    interpreter.allocate_tensors()
    return interpreter


def onnxruntime_session(model: str | bytes, profile: str | None = None) -> Any:
    """A session on one thread. `profile`: how the path of a profile that it writes begins."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ONLY_FATAL
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    providers = ["CPUExecutionProvider"]
    like = with_like_signs(model)
    if like is not model:  # a file that it refuses must not run because we have rewritten it
        onnxruntime.InferenceSession(model, options, providers=providers)
    return onnxruntime.InferenceSession(like, options, providers=providers)


def write_folded(model: bytes, path: Path) -> None:
    """The model as onnxruntime's basic optimisations leave it: constants and BatchNormalization
    folded."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.log_severity_level = _ONLY_FATAL
    options.intra_op_num_threads = 1
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def with_like_signs(model: str | bytes) -> str | bytes:
    """The model itself if no integers of unlike signs are multiplied in it."""
    from npuscope.files.onnx.file_graph import OnnxFileGraph
    from npuscope.files.onnx.stored_file import node_kinds

    data = model if isinstance(model, bytes) else Path(model).read_bytes()
    if not node_kinds(data).intersection(_PRODUCTS):
        return model
    graph = OnnxFileGraph.parse(data, Path() if isinstance(model, bytes) else Path(model).parent)
    products = []
    for op in graph.nodes:
        places = _PRODUCTS.get(graph.kind(op), ())[:2]
        products.append((op, [graph.type(graph.inputs(op)[place]) for place in places]))
    unlike = [(op, types[0]) for op, types in products if {*types} == {"int8", "uint8"}]
    for op, type in unlike:
        _flip_weights(graph, op, type)
    return graph.to_bytes() if unlike else model


def _flip_weights(graph: FileGraph, op: FileNode, target: str) -> None:
    """Weights and their zero point move by 128, into the activations' type."""
    from npuscope.files.onnx.entries import type_number

    inputs, stem = graph.inputs(op), f"{graph.name(graph.outputs(op)[0])}/like"
    half = graph.add_constant(f"{stem}/half", np.array(_HALF if target == "uint8" else -_HALF, "i"))
    for place in _PRODUCTS[graph.kind(op)][1:]:
        wide = half  # a zero point that is left out is 0
        if place < len(inputs) and inputs[place] is not None:
            cast, wide = (graph.new_tensor(f"{stem}/{n}", (), half) for n in ("wide", "sum"))
            graph.add_op("Cast", [inputs[place]], cast, to=type_number("int32"))
            graph.add_op("Add", [cast, half], wide)
        flipped = graph.new_tensor(f"{stem}/flipped", (), half)
        graph.add_op("Cast", [wide], flipped, to=type_number(target))
        graph.set_input(op, place, flipped)


# --- The process that runs an outside runtime ---
# python -m npuscope.profiling.runtimes RUNTIME KERNELS MODEL INPUTS.npz OUTPUTS.npz ...
# python -m npuscope.profiling.runtimes RUNTIME KERNELS < lines of ["MODEL", "INPUTS", "OUTPUTS"]
# python -m npuscope.profiling.runtimes RUNTIME open MODEL
# Arrays are named sample_input and sample_output; scale_input holds scale and zero point of
# integers that stand for the reals of a float input.

Arrays = list[np.ndarray]
Runtime = Callable[[Arrays], Arrays]


def main() -> None:
    name, kernels, *files = sys.argv[1:]
    if kernels == "open":
        _litert(files[0], "any") if name == "litert" else _onnxruntime(files[0], {})
        return
    if not files:  # they come one by one: what can be loaded before is
        import_module("ai_edge_litert.interpreter" if name == "litert" else "onnxruntime")
    rows = (
        (files[n : n + 3] for n in range(0, len(files), 3)) if files else map(json.loads, sys.stdin)
    )
    for model, inputs, outputs in rows:
        _write_outputs(name, kernels, model, inputs, Path(outputs))


def _write_outputs(
    name: str, kernels: str, model: str, inputs_file: str, outputs_file: Path
) -> None:
    with np.load(inputs_file, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    scales = {key: arrays.pop(key) for key in [*arrays] if key.startswith("scale_")}
    numbers = [key.split("_") for key in arrays]
    samples = range(1 + max(int(sample) for sample, _ in numbers))
    inputs = range(1 + max(int(number) for _, number in numbers))

    def run(mine: range) -> dict[str, np.ndarray]:
        runtime = _litert(model, kernels) if name == "litert" else _onnxruntime(model, scales)
        results: dict[str, np.ndarray] = {}
        for sample in mine:
            outputs = runtime([arrays[f"{sample}_{number}"] for number in inputs])
            results |= {f"{sample}_{number}": value for number, value in enumerate(outputs)}
        return results

    # Each thread has a runtime of its own, which computes as it would alone.
    threads = min(len(samples), os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        parts = [*pool.map(run, (samples[first::threads] for first in range(threads)))]
    results = {key: value for part in parts for key, value in part.items()}
    # Whoever reads may find a whole file only: the next network may end this process.
    with outputs_file.with_suffix(".part").open("wb") as part:
        np.savez(part, **results)  # type: ignore[arg-type]
    outputs_file.with_suffix(".part").replace(outputs_file)


def _litert(model: str, kernels: str) -> Runtime:
    interpreter = _interpreter(model, kernels)
    details = interpreter.get_input_details()

    def run(inputs: Arrays) -> Arrays:
        if len(inputs) > len(details):
            sys.exit(STATE_INSIDE)
        interpreter.reset_all_variables()  # a sample does not begin with the state of another
        for value, detail in zip(inputs, details, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    return run


_WRONG = ("SUM",)  # on integers its reference kernel reads memory that it never set


def _interpreter(model: str, kernels: str) -> Any:
    """Some operators have no reference kernel in the version that a file asks for, one a wrong."""
    try:
        interpreter = litert_interpreter(model)
    except (ValueError, RuntimeError):
        if kernels != "any":
            raise
        return litert_interpreter(model, LitertKernels.DEFAULT)
    wrong = any(op["op_name"] in _WRONG for op in interpreter._get_ops_details())
    return litert_interpreter(model, LitertKernels.DEFAULT) if wrong else interpreter


def _wanted(node: Any, value: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
    if scale is None or node.type != "tensor(float)":
        return value
    return np.asarray((value.astype(np.float32) - scale[1]) * np.float32(scale[0]), np.float32)


def _onnxruntime(model: str, scales: dict[str, np.ndarray]) -> Runtime:
    session = onnxruntime_session(model)
    nodes = session.get_inputs()

    def run(inputs: Arrays) -> Arrays:
        rows = enumerate(zip(nodes, inputs, strict=True))
        feeds = {node.name: _wanted(node, x, scales.get(f"scale_{n}")) for n, (node, x) in rows}
        return [np.asarray(result) for result in session.run(None, feeds)]

    return run


if __name__ == "__main__":
    main()
