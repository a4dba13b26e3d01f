"""The process that runs an outside runtime: python -m npuscope.profile.outside_child
RUNTIME MODEL INPUTS.npz OUTPUTS.npz. Arrays are named sample_input and sample_output."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

Arrays = list[np.ndarray]
Runtime = Callable[[Arrays], Arrays]


def main() -> None:
    name, model, given, made = sys.argv[1:5]
    runtime = _litert(model) if name == "litert" else _onnxruntime(model)
    results: dict[str, np.ndarray] = {}
    with np.load(given, allow_pickle=False) as file:
        samples = 1 + max(int(key.split("_")[0]) for key in file.files)
        inputs = 1 + max(int(key.split("_")[1]) for key in file.files)
        for sample in range(samples):
            outputs = runtime([file[f"{sample}_{number}"] for number in range(inputs)])
            results |= {f"{sample}_{number}": value for number, value in enumerate(outputs)}
    np.savez(made, **results)  # type: ignore[arg-type]


def _litert(model: str) -> Runtime:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_path=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()

    def run(inputs: Arrays) -> Arrays:
        for value, detail in zip(inputs, details, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    return run


def _onnxruntime(model: str) -> Runtime:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    nodes = session.get_inputs()

    def run(inputs: Arrays) -> Arrays:
        feeds = {node.name: value for node, value in zip(nodes, inputs, strict=True)}
        return [np.asarray(result) for result in session.run(None, feeds)]

    return run


if __name__ == "__main__":
    main()
