"""The judge of Vela's streams: what it takes for explained, on a small network of each cause."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from differential.generate import network_of
from models_tflite import SAME, TfliteWriter

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
SINGLES = {  # seed of one operator: machine, causes
    148: ("ethos-u55-128", "rounds twice"),
    2340: ("ethos-u85-256", "compares rounded"),
    160: ("ethos-u55-128", "negates about zero points"),
    376: ("ethos-u85-256", "divides stored values"),
    1312: ("ethos-u55-128", "0 / x in LiteRT"),
    1870: ("ethos-u55-128", "sum of LiteRT, sums one axis"),
    412: ("ethos-u85-256", "sum of LiteRT"),
    424: ("ethos-u55-128", "reduces the first row"),
    908: ("ethos-u85-256", "pads with memory"),
    1128: ("ethos-u85-256", "resizes by centres"),
    1266: ("ethos-u55-128", "clips bytes as signed"),
    796: ("ethos-u55-128", "clips bytes as signed"),
    1878: ("ethos-u85-256", "centres in a stride"),
}


@pytest.fixture(scope="module")
def benchmark() -> Any:
    pytest.importorskip("ai_edge_litert", reason="ai_edge_litert is not installed")
    pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")
    sys.path.insert(0, str(SCRIPTS))
    try:  # a package of the tests has the same name
        spec = spec_from_file_location("ethos_u_script", SCRIPTS / "ethos_u.py")
        assert spec is not None and spec.loader is not None
        script = module_from_spec(spec)
        spec.loader.exec_module(script)
    finally:
        sys.path.remove(str(SCRIPTS))
    return script


@pytest.mark.parametrize("seed", SINGLES)
def test_one_operator_has_one_cause(benchmark: Any, seed: int, tmp_path: Path) -> None:
    path = tmp_path / "one.tflite"
    path.write_bytes(network_of(seed, "single").written())
    machine, causes = SINGLES[seed]
    row = benchmark.compared(path, machine)
    assert row["different"] > 0
    assert (", ".join(row["causes"]), row["unexplained"]) == (causes, 0)


def test_other_values_are_not_explained(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.tflite"
    path.write_bytes(network_of(148, "single").written())
    execute = benchmark.executed
    monkeypatch.setattr(
        benchmark,
        "executed",
        lambda *args: {name: values ^ 1 for name, values in execute(*args).items()},
    )
    row = benchmark.compared(path, "ethos-u55-128")
    assert row["unexplained"] == row["values"]


def test_sums_that_overwrite_other_tensors_are_left_out(benchmark: Any, tmp_path: Path) -> None:
    path = tmp_path / "sums.tflite"
    path.write_bytes(network_of(930030).written())
    row = benchmark.compared(path, "ethos-u55-128")
    assert (row["causes"], row["unexplained"]) == (["sum of LiteRT", "sums one axis"], 0)


def _part(writer: TfliteWriter, axis: int = 3) -> tuple[int, int]:
    """An image and its second half along an axis."""
    image = writer.tensor("x", (1, 1, 6, 6), "int8", 0.02, -128)
    shape = (1, 1, 6, 3) if axis == 3 else (1, 1, 3, 6)
    halves = [writer.tensor(name, shape, "int8", 0.02, -128) for name in "ab"]
    where = writer.constant("axis", np.array(axis, np.int32))
    writer.op("SPLIT", [where, image], halves, numSplits=2)
    return image, halves[1]


def _depth_of_a_part() -> bytes:
    writer, rng = TfliteWriter(), np.random.default_rng(0)
    image, part = _part(writer)
    weights = rng.integers(-127, 128, (1, 3, 1, 6)).astype(np.int8)
    kernel = writer.constant("w", weights, scale=0.005)
    output = writer.tensor("y", (1, 1, 6, 6), "int8", 0.02, 0)
    writer.op("DEPTHWISE_CONV_2D", [part, kernel], [output], padding=SAME, depthMultiplier=2)
    return writer.finish([image], [output])


def _pool_of_every_second() -> bytes:
    writer = TfliteWriter()
    image = writer.tensor("x", (1, 6, 8, 4), "int8", 0.02, -5)
    part = writer.tensor("p", (1, 3, 8, 4), "int8", 0.02, -5)
    output = writer.tensor("y", (1, 3, 8, 4), "int8", 0.02, -5)
    bounds = [
        writer.constant(name, np.array(values, np.int32))
        for name, values in (("b", (0, 0, 0, 0)), ("e", (1, 6, 8, 4)), ("s", (1, 2, 1, 1)))
    ]
    writer.op("STRIDED_SLICE", [image, *bounds], [part])
    writer.op("MAX_POOL_2D", [part], [output], padding=SAME, filterHeight=3, filterWidth=3)
    return writer.finish([image], [output])


def _smallest_of_a_part() -> bytes:
    writer = TfliteWriter()
    image, part = _part(writer)
    output = writer.tensor("y", (1, 1, 6, 1), "int8", 0.02, -128)
    axes = writer.constant("axes", np.array([3], np.int32))
    writer.op("REDUCE_MIN", [part, axes], [output], keepDims=True)
    return writer.finish([image], [output])


def _largest_of_a_part() -> bytes:
    writer = TfliteWriter()
    image, part = _part(writer)
    output = writer.tensor("y", (1, 1, 3), "int32")
    writer.op("ARG_MAX", [part, writer.constant("along", np.array(2, np.int32))], [output])
    return writer.finish([image], [output])


def _padded_reduction() -> bytes:
    writer = TfliteWriter()
    image = writer.tensor("x", (1, 1, 13, 3), "int8", 0.02, -5)
    rows = writer.tensor("m", (13, 3), "int8", 0.02, -5)
    output = writer.tensor("y", (18, 3), "int8", 0.02, -5)
    axes = writer.constant("axes", np.array([0, 1], np.int32))
    writer.op("REDUCE_MAX", [image, axes], [rows], keepDims=False)
    writer.op("PAD", [rows, writer.constant("p", np.array([[3, 2], [0, 0]], np.int32))], [output])
    return writer.finish([image], [output])


def _transposed_part(axis: int = 3) -> bytes:
    writer, rng = TfliteWriter(), np.random.default_rng(0)
    image, part = _part(writer, axis)
    width, depth = (12, 3) if axis == 3 else (6, 6)
    weights = rng.integers(-127, 128, (2, 2, 2, depth)).astype(np.int8)
    kernel = writer.constant("w", weights, scale=0.005)
    shape = writer.constant("shape", np.array([1, 2, width, 2], np.int32))
    output = writer.tensor("y", (1, 2, width, 2), "int8", 0.02, 0)
    writer.op("TRANSPOSE_CONV", [shape, kernel, part], [output], padding=SAME, strideH=2, strideW=2)
    return writer.finish([image], [output])


def _selection(condition_leaves: bool) -> bytes:
    """Its condition is an output of the network, or an operand is read in another shape."""
    writer, rng = TfliteWriter(), np.random.default_rng(0)
    shape = (1, 5, 6, 6)
    image, relu, output = (
        writer.tensor(name, shape, "int8", 0.03, zero)
        for name, zero in (("x", 1), ("r", 1), ("y", 1))
    )
    writer.op("RELU", [image], [relu])
    other = writer.constant(
        "k", rng.integers(-128, 128, shape).astype(np.int8), scale=0.03, zero_point=1
    )
    condition = writer.tensor("c", shape, "bool")
    writer.op("GREATER", [image, other], [condition])
    leaving = condition
    if not condition_leaves:
        leaving = writer.tensor("flat", (5, 36), "int8", 0.03, 1)
        writer.op("RESHAPE", [relu, writer.constant("s", np.array([5, 36], np.int32))], [leaving])
    writer.op("SELECT_V2", [condition, relu, other], [output])
    return writer.finish([image], [leaving, output])


@pytest.mark.parametrize(
    ("model", "machine", "cause"),
    [
        (_depth_of_a_part(), "ethos-u85-256", "pads after the image"),
        (_transposed_part(), "ethos-u55-128", "pads after the image"),
        (_transposed_part(axis=2), "ethos-u85-256", "reads the whole's beginning"),
        (_pool_of_every_second(), "ethos-u55-128", "skips a row or column"),
        (_smallest_of_a_part(), "ethos-u85-256", "reduces other values"),
        (_largest_of_a_part(), "ethos-u85-256", "looks along the other axis"),
        (_padded_reduction(), "ethos-u55-128", "writes a reduction before its place"),
        (_selection(True), "ethos-u85-256", "selects by one bit"),
        (_selection(False), "ethos-u85-256", "selects in another shape"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_neighbours_change_an_operator(
    benchmark: Any, model: bytes, machine: str, cause: str, tmp_path: Path
) -> None:
    path = tmp_path / "two.tflite"
    path.write_bytes(model)
    row = benchmark.compared(path, machine)
    assert row["different"] > 0
    assert (row["causes"], row["unexplained"]) == ([cause], 0)
