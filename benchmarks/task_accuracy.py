"""Answers of float, int8 and NPU arithmetic on labelled data: what changes, with 95 % ranges.

    python benchmarks/task_accuracy.py --kws MODEL.tflite FOLDER --json task_accuracy.json

FOLDER holds the 1,000 inputs and y_labels.csv of MLPerf Tiny's kws01 (datasets/kws01 of
eembc/energyrunner), MODEL is its int8 reference. Three more networks are trained here on the
digits of scikit-learn: a perceptron, and two whose convolutions are fixed and whose end is fitted.
They are quantized by `npuscope quantize` on other digits than those that judge them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import npuscope
from npuscope.accuracy.result import TaskAccuracy
from npuscope.profiling.runtimes import onnxruntime_session

Row = dict[str, Any]
_AIM = 0.01  # answers that the machine may change


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kws", nargs=2, metavar=("MODEL", "FOLDER"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[Row] = []
    if args.kws:
        model, folder = args.kws
        result = npuscope.validate(model, data=folder, labels=Path(folder) / "y_labels.csv")
        rows.append(row("kws01", result))
    with tempfile.TemporaryDirectory() as folder:
        rows += [trained(Path(folder), name) for name in ("perceptron", "filters", "two stages")]
    for entry in rows:
        print(line(entry))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


def row(name: str, result: Any) -> Row:
    assert isinstance(result, TaskAccuracy)
    figures = {
        r.name: [r.figures[0].value, r.figures[0].low, r.figures[0].high] for r in result.rows
    }
    pairs = {
        f"{p.one} to {p.other}": [p.changed.value, p.changed.low, p.changed.high]
        for p in result.pairings
    }
    layer = next((c.op for c in result.layers if c.other == "npu"), "")
    return {"network": name, "samples": result.samples, **figures, **pairs, "layer": layer}


def line(entry: Row) -> str:
    cells = [f"{entry['network']:<12} {entry['samples']:>5} samples"]
    for name in ("float", "int8", "npu"):
        if name in entry:
            value, low, high = entry[name]
            cells.append(f"{name} {value:.1%} ({low:.1%} to {high:.1%})")
    value, low, high = entry["int8 to npu"]
    cells.append(f"changed by the machine {value:.2%} ({low:.2%} to {high:.2%})")
    if value > _AIM:
        cells.append(f"most by {entry['layer']}")
    return "; ".join(cells)


# --- Networks that are trained here ---


def trained(folder: Path, name: str) -> Row:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:900], order[900:]
    nodes, constants = _network(name, images[train], digits.target[train])
    model = folder / f"{name}.onnx"
    _save(model, nodes, constants)
    np.savez(folder / "calibration.npz", x=images[train][:128])
    np.savez(folder / "test.npz", x=images[test], labels=digits.target[test])
    quantized = folder / f"{name}_int8.onnx"
    npuscope.quantize(model, quantized, data=folder / "calibration.npz")
    result = npuscope.validate(quantized, data=folder / "test.npz", float_model=model)
    return row(name, result)


def _network(
    name: str, images: np.ndarray, labels: np.ndarray
) -> tuple[list[Any], dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    if name == "perceptron":
        from sklearn.neural_network import MLPClassifier

        fitted = MLPClassifier((48,), max_iter=400, random_state=0)
        fitted.fit(images.reshape(len(images), -1), labels)
        first, last = (weights.astype(np.float32) for weights in fitted.coefs_)
        constants = {"w0": first, "b0": fitted.intercepts_[0].astype(np.float32), "w1": last}
        constants["b1"] = fitted.intercepts_[1].astype(np.float32)
        nodes = [
            helper.make_node("Flatten", ["x"], ["flat"]),
            helper.make_node("Gemm", ["flat", "w0", "b0"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Gemm", ["r", "w1", "b1"], ["y"]),
        ]
        return nodes, constants
    stages = [(1, 24, 2)] if name == "filters" else [(1, 16, 1), (16, 32, 2)]
    nodes, constants, last = [], {}, "x"
    for number, (inputs, outputs, stride) in enumerate(stages):
        kernel = rng.normal(0, (2 / (9 * inputs)) ** 0.5, (outputs, inputs, 3, 3))
        constants[f"k{number}"] = kernel.astype(np.float32)
        constants[f"c{number}"] = rng.normal(0, 0.1, outputs).astype(np.float32)
        names = [last, f"k{number}", f"c{number}"]
        pads = {"pads": [1, 1, 1, 1], "strides": [stride, stride]}
        nodes.append(helper.make_node("Conv", names, [f"v{number}"], **pads))
        last = f"r{number}"
        nodes.append(helper.make_node("Relu", [f"v{number}"], [last]))
    nodes.append(helper.make_node("Flatten", [last], ["flat"]))
    features = _run(nodes, constants, images, "flat")
    ones = np.concatenate([features, np.ones((len(features), 1))], 1)
    goal = np.eye(10)[labels]
    fit = np.linalg.solve(ones.T @ ones + 5.0 * np.eye(ones.shape[1]), ones.T @ goal)
    constants |= {"w": fit[:-1].astype(np.float32), "b": fit[-1].astype(np.float32)}
    return [*nodes, helper.make_node("Gemm", ["flat", "w", "b"], ["y"])], constants


def _model(nodes: list[Any], constants: dict[str, np.ndarray], output: str) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _save(path: Path, nodes: list[Any], constants: dict[str, np.ndarray]) -> None:
    onnx.save(onnx.shape_inference.infer_shapes(_model(nodes, constants, "y")), path)


def _run(
    nodes: list[Any], constants: dict[str, np.ndarray], images: np.ndarray, output: str
) -> np.ndarray:
    session = onnxruntime_session(_model(nodes, constants, output).SerializeToString())
    rows = [session.run([output], {"x": image[None]})[0][0] for image in images]
    return np.stack(rows).astype(np.float64)


if __name__ == "__main__":
    main()
