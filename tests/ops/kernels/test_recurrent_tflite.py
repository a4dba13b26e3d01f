"""TFLite's layers with a memory against LiteRT: integers exactly, reals within 1e-5."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.files.load import load_model
from npuscope.ops.run import run
from npuscope.ops.table import total_macs
from npuscope.profiling.runtimes import litert_interpreter
from ops.litert_ops import ABSENT, Value, constant, one_op, options, ours, q8, reference

BATCH, STEPS, INPUTS, UNITS = 2, 5, 3, 7
TANH, RELU = 4, 1
REAL_LIMIT = 1e-5
LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
SEQUENCE = "UnidirectionalSequenceLSTMOptions"


def integer_lstm(cell_scale: float, clip: float, time_major: bool = False) -> bytes:
    rng = np.random.default_rng(5)
    scales = rng.uniform(0.004, 0.03, 8)
    x_scale, y_scale, zero = 0.0625, 0.0078125, -3

    def weights(gate: int, inputs: int) -> Value:
        return constant(rng.integers(-127, 128, (UNITS, inputs), dtype=np.int8), scales[gate])

    gates = [weights(gate, INPUTS if gate < 4 else UNITS) for gate in range(8)]
    biases = [
        constant(rng.integers(-900, 900, UNITS, dtype=np.int32), scale * x_scale)
        for scale in scales[:4]
    ]
    hidden = Value((BATCH, UNITS), "int8", (y_scale,), (zero,), variable=True)
    cells = Value((BATCH, UNITS), "int16", (cell_scale,), variable=True)
    lead = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    chosen = options(SEQUENCE, fusedActivationFunction=TANH, cellClip=clip, timeMajor=time_major)
    parts = [q8((*lead, INPUTS), x_scale, 11), *gates, *[ABSENT] * 3, *biases]
    parts += [ABSENT, ABSENT, hidden, cells, *[ABSENT] * 4]
    inner = [Value((0,), "float32")] * 4 + [q8((0,), y_scale, zero)]
    return one_op(LSTM, chosen, parts, q8((*lead, UNITS), y_scale, zero), inner)


def real_lstm(clip: float = 0.0, couple: bool = False, dtype: str = "float32") -> bytes:
    rng = np.random.default_rng(6)

    def real(*shape: int) -> Value:
        return constant(rng.normal(size=shape).astype(np.float32))

    def weights(inputs: int) -> list[Value]:
        made = [real(UNITS, inputs) for _ in range(4)]
        if dtype == "int8":
            made = [constant(rng.integers(-9, 9, (UNITS, inputs), np.int8), 0.1) for _ in made]
        return [ABSENT, *made[1:]] if couple else made

    state = [Value((BATCH, UNITS), "float32", variable=True)] * 2
    biases = [real(UNITS) for _ in range(4)]
    parts = [Value((BATCH, STEPS, INPUTS), "float32"), *weights(INPUTS), *weights(UNITS)]
    parts += [*[ABSENT] * 3, *([ABSENT, *biases[1:]] if couple else biases), ABSENT, ABSENT, *state]
    chosen = options(SEQUENCE, fusedActivationFunction=TANH, cellClip=clip)
    return one_op(LSTM, chosen, parts, Value((BATCH, STEPS, UNITS), "float32"))


def bytes_of(shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)


@pytest.mark.parametrize("cell_bits", [0, 3, 4, 6])
@pytest.mark.parametrize("clip", [0.0, 0.4])
def test_an_integer_lstm(cell_bits: int, clip: float, tmp_path: Path) -> None:
    model = integer_lstm(2.0 ** (cell_bits - 15), clip)
    for seed in range(8):
        x = bytes_of((BATCH, STEPS, INPUTS), seed)
        wanted = reference(model, [x])
        np.testing.assert_array_equal(ours(tmp_path, model, [x]), wanted)
    assert len(np.unique(wanted)) > 20


def test_an_integer_lstm_with_steps_first(tmp_path: Path) -> None:
    model, x = integer_lstm(2.0**-12, 0.0, time_major=True), bytes_of((STEPS, BATCH, INPUTS))
    np.testing.assert_array_equal(ours(tmp_path, model, [x]), reference(model, [x]))


@pytest.mark.parametrize("clip", [0.0, 0.4])
def test_a_real_lstm(clip: float, tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(BATCH, STEPS, INPUTS)).astype(np.float32)
    model = real_lstm(clip)
    wanted = reference(model, [x])
    np.testing.assert_allclose(ours(tmp_path, model, [x]), wanted, REAL_LIMIT, REAL_LIMIT)


def test_every_weight_works_once_a_step(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(integer_lstm(2.0**-12, 0.0))
    graph = load_model(path)
    assert total_macs(graph) == BATCH * STEPS * 4 * UNITS * (INPUTS + UNITS)
    assert "recurrent layers start every inference with a state of zero" in graph.notes


@pytest.mark.parametrize("form", [{"couple": True}, {"dtype": "int8"}])
def test_other_forms_are_of_unknown_cost(form: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(real_lstm(**form))  # type: ignore[arg-type]
    graph = load_model(path)
    assert [op.kind for op in graph.ops] == ["Unknown"]
    with pytest.raises(TargetError, match=LSTM):
        run(graph, {graph.inputs[0]: np.zeros((BATCH, STEPS, INPUTS), np.float32)})


FILTERS, MEMORY, RANK = 10, 5, 2


def svdf(dtype: str, bias: bool = True) -> bytes:
    rng = np.random.default_rng(7)
    chosen = options("SVDFOptions", rank=RANK, fusedActivationFunction=RELU)
    units, kept = FILTERS // RANK, (BATCH, FILTERS * MEMORY)
    if dtype == "float32":
        parts = [
            Value((BATCH, INPUTS), dtype),
            constant(rng.normal(size=(FILTERS, INPUTS)).astype(np.float32)),
            constant(rng.normal(size=(FILTERS, MEMORY)).astype(np.float32)),
            constant(rng.normal(size=units).astype(np.float32)) if bias else ABSENT,
            Value(kept, dtype, variable=True),
        ]
        return one_op("SVDF", chosen, parts, Value((BATCH, units), dtype))
    parts = [
        q8((BATCH, INPUTS), 0.05, -7),
        constant(rng.integers(-127, 128, (FILTERS, INPUTS), np.int8), 0.01),
        constant(rng.integers(-3000, 3000, (FILTERS, MEMORY), np.int16), 0.0002),
        constant(rng.integers(-900, 900, units, np.int32), 0.001 * 0.0002) if bias else ABSENT,
        Value(kept, "int16", (0.001,), variable=True),
    ]
    return one_op("SVDF", chosen, parts, q8((BATCH, units), 0.03, -128))


def _steps(folder: Path, model: bytes, inputs: list[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
    """Of consecutive inferences: LiteRT's result and ours, whose memory is handed on."""
    path = folder / "m.tflite"
    path.write_bytes(model)
    graph, runtime = load_model(path), litert_interpreter(model)
    given, memory = graph.inputs
    kept = np.zeros(graph.tensors[memory].shape, graph.tensors[memory].dtype.numpy)
    rows = []
    for x in inputs:
        runtime.set_tensor(runtime.get_input_details()[0]["index"], x)
        runtime.invoke()
        results = run(graph, {given: x, memory: kept})
        found, kept = (results[name] for name in graph.outputs)
        rows.append((runtime.get_tensor(runtime.get_output_details()[0]["index"]), found))
    return rows


@pytest.mark.parametrize("bias", [True, False])
def test_an_integer_svdf_keeps_its_memory(bias: bool, tmp_path: Path) -> None:
    inputs = [bytes_of((BATCH, INPUTS), seed) for seed in range(MEMORY + 2)]
    rows = _steps(tmp_path, svdf("int8", bias), inputs)
    for wanted, found in rows:
        np.testing.assert_array_equal(found, wanted)
    assert len(np.unique([wanted for wanted, _ in rows])) > 10


@pytest.mark.parametrize("bias", [True, False])
def test_a_real_svdf_keeps_its_memory(bias: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    inputs = [rng.normal(size=(BATCH, INPUTS)).astype(np.float32) for _ in range(MEMORY + 2)]
    for wanted, found in _steps(tmp_path, svdf("float32", bias), inputs):
        np.testing.assert_allclose(found, wanted, REAL_LIMIT, REAL_LIMIT)


def test_macs_of_svdf(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(svdf("int8"))
    graph = load_model(path)
    assert total_macs(graph) == BATCH * FILTERS * (INPUTS + MEMORY)
    assert "1 variable of the network: each becomes an input and an output" in graph.notes
