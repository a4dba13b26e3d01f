"""The process that runs an outside runtime: python -m npuscope.profiling.outside_child
RUNTIME KERNELS MODEL INPUTS.npz OUTPUTS.npz. Arrays are named sample_input and sample_output;
scale_input holds scale and zero point of integers that stand for the reals of a float input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from npuscope.profiling.runtimes import Kernels, litert_interpreter, onnxruntime_session

Arrays = list[np.ndarray]
Runtime = Callable[[Arrays], Arrays]


def main() -> None:
    name, kernels, model, given, made = sys.argv[1:6]
    results: dict[str, np.ndarray] = {}
    with np.load(given, allow_pickle=False) as file:
        scales = {key: file[key] for key in file.files if key.startswith("scale_")}
        runtime = _litert(model, kernels) if name == "litert" else _onnxruntime(model, scales)
        arrays = [key.split("_") for key in file.files if key not in scales]
        samples = 1 + max(int(sample) for sample, _ in arrays)
        inputs = 1 + max(int(number) for _, number in arrays)
        for sample in range(samples):
            outputs = runtime([file[f"{sample}_{number}"] for number in range(inputs)])
            results |= {f"{sample}_{number}": value for number, value in enumerate(outputs)}
    np.savez(made, **results)  # type: ignore[arg-type]


def _litert(model: str, kernels: str) -> Runtime:
    interpreter = _interpreter(model, kernels)
    details = interpreter.get_input_details()

    def run(inputs: Arrays) -> Arrays:
        for value, detail in zip(inputs, details, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    return run


def _interpreter(model: str, kernels: str) -> Any:
    """Some operators have no reference kernel in the version that a file asks for."""
    try:
        return litert_interpreter(model)
    except (ValueError, RuntimeError):
        if kernels != "any":
            raise
        return litert_interpreter(model, Kernels.DEFAULT)


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
