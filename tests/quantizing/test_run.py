"""From a float file to int8: what is made, measured and chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import npuscope
from npuscope.errors import ModelError, UsageError
from npuscope.files.load import load_model
from npuscope.graph.model import DType
from npuscope.profiling.runtimes import onnxruntime_session
from npuscope.quantizing.plan import RangePlan
from npuscope.quantizing.run import Quantized
from npuscope.quantizing.trial import Trial, verdict
from npuscope.structs import replace
from quantizing.float_nets import picture_file, pictures, small_net

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quantize")


@pytest.fixture(scope="module")
def made(folder: Path) -> Quantized:
    path, data = small_net(folder), picture_file(folder)
    return npuscope.quantize(path, folder / "int8.onnx", data=data)


def test_the_file_is_int8_from_end_to_end(made: Quantized, folder: Path) -> None:
    graph = load_model(folder / "int8.onnx")
    border = [graph.tensor(name) for name in (*graph.inputs, *graph.outputs)]
    assert {tensor.dtype for tensor in border} == {DType.INT8}
    computed = [t for t in graph.tensors.values() if t.data is None]
    assert {tensor.dtype for tensor in computed} == {DType.INT8}
    assert onnx.load(folder / "int8.onnx").graph.node  # opens without its folder


def test_weights_have_a_scale_for_every_channel(made: Quantized, folder: Path) -> None:
    graph = load_model(folder / "int8.onnx")
    convs = [op for op in graph.ops if op.kind == "Conv2D"]
    assert convs
    for op in convs:
        quant = graph.tensor(op.inputs[1]).quant
        assert quant is not None and quant.axis == 0 and not any(quant.zero_points)


def test_the_slopes_of_a_prelu_are_on_the_npu(made: Quantized) -> None:
    assert made.after.counts["SW"] == 1  # the Softmax
    assert made.plain is not None and made.plain.profile.counts["SW"] > 1
    assert made.after.total_ms < made.plain.profile.total_ms


def test_it_is_better_than_the_defaults(made: Quantized) -> None:
    assert made.plain is not None
    assert made.sqnr_db["scores"] >= made.plain.sqnr_db["scores"]
    assert made.sqnr_db["scores"] > 25


def test_the_figure_is_that_of_the_written_file(made: Quantized, folder: Path) -> None:
    session = onnxruntime_session(str(folder / "int8.onnx"))
    real = onnxruntime_session((folder / "net.onnx").read_bytes())
    (source,), (result,) = made.inputs, made.outputs
    assert source.quant is not None and result.quant is not None
    signal = noise = 0.0
    for picture in pictures()[::4]:
        image = picture[None]
        steps = np.rint(image / np.float32(source.quant.scale)) + source.quant.zero_point
        given = np.clip(steps, -128, 127).astype(np.int8)
        (found,) = session.run(None, {source.name: given})
        values = (found.astype(float) - result.quant.zero_point) * result.quant.scale
        (wanted,) = real.run(None, {"image": image})
        signal += float((wanted**2).sum())
        noise += float(((wanted - values) ** 2).sum())
    assert 10 * np.log10(signal / noise) == pytest.approx(made.sqnr_db["scores"], abs=0.05)


def test_the_result_passes_validate(made: Quantized, folder: Path) -> None:
    assert npuscope.validate(folder / "int8.onnx").passed
    assert npuscope.estimate(folder / "int8.onnx").total_ms == made.after.total_ms


def test_every_layer_is_measured(made: Quantized) -> None:
    kinds = {loss.kind for loss in made.layers}
    assert {"Conv", "PRelu", "Add", "Concat", "Gemm", "Softmax"} <= kinds
    assert all(loss.weights_db is not None for loss in made.layers if loss.kind == "Conv")
    last = made.layers[-1]
    assert last.tensor == "scores" and last.sqnr_db == pytest.approx(
        made.sqnr_db["scores"], abs=0.1
    )


def test_the_same_seed_gives_the_same_bytes(made: Quantized, folder: Path) -> None:
    again = npuscope.quantize(folder / "net.onnx", data=folder / "data.npz")
    assert again.data == made.data
    other = npuscope.quantize(folder / "net.onnx", data=folder / "data.npz", samples=8, seed=1)
    assert other.data != made.data


def test_float_at_the_border_on_request(folder: Path) -> None:
    found = npuscope.quantize(
        folder / "net.onnx",
        data=folder / "data.npz",
        calibration="minmax",
        input_data_type="float32",
        output_data_type="float32",
    )
    proto = onnx.ModelProto.FromString(found.data)
    kinds = {e.type.tensor_type.elem_type for e in (*proto.graph.input, *proto.graph.output)}
    assert kinds == {onnx.TensorProto.FLOAT}
    assert found.method == "minmax"
    assert found.inputs[0].dtype is DType.FLOAT32 and found.sqnr_db["scores"] > 25


def test_bytes_without_a_sign_at_the_input(folder: Path) -> None:
    found = npuscope.quantize(
        folder / "net.onnx", data=folder / "data.npz", calibration="mse", input_data_type="uint8"
    )
    proto = onnx.ModelProto.FromString(found.data)
    assert proto.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
    (source,) = found.inputs
    assert source.dtype is DType.UINT8 and source.quant is not None
    assert source.quant.zero_point >= 0 and found.sqnr_db["scores"] > 25


def test_random_data_is_told(made: Quantized, folder: Path) -> None:
    found = npuscope.quantize(folder / "net.onnx", data="random", samples=8, calibration="minmax")
    assert not found.samples.real and "random" in found.samples.source


def test_progress_is_told(made: Quantized, folder: Path) -> None:
    seen: list[str] = []
    npuscope.quantize(
        folder / "net.onnx", data="random", samples=4, calibration="minmax", progress=seen.append
    )
    assert seen[0] == "preparing the float network"
    assert "calibrating: sample 3 of 3" in seen


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"calibration": "best"}, "unknown calibration 'best'"),
        ({"samples": 1}, "expected 2 or more, found 1"),
        ({"loss_db": -1.0}, "expected 0 or more"),
        ({"as_int8": True}, "quantize needs the network's own scales"),
        ({"output": "x.tflite"}, "so the quantized one is"),
    ],
)
def test_wrong_wishes(folder: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        npuscope.quantize(folder / "net.onnx", data="random", **options)  # type: ignore[arg-type]


def test_a_quantized_model_is_refused(made: Quantized, folder: Path) -> None:
    with pytest.raises(ModelError, match="quantized already"):
        npuscope.quantize(folder / "int8.onnx", data="random")


# --- When a choice is kept ---


def trial(made: Quantized, ms: float, db: float) -> Trial:
    return Trial(RangePlan("minmax", {}), b"", replace(made.after, total_ms=ms), {"y": db})


@pytest.mark.parametrize(
    ("before", "after", "kept", "words"),
    [
        ((1.0, 30.0), (0.9, 29.5), True, "10.0% faster"),
        ((1.0, 30.0), (0.9, 28.5), False, "it costs 1.5 dB"),
        ((1.0, 20.5), (0.9, 19.9), False, "worse than with the quantizer's defaults"),
        ((1.0, 30.0), (1.1, 40.0), False, "10.0% slower"),
        ((1.0, 30.0), (1.0, 31.0), True, "1.0 dB better"),
        ((1.0, 30.0), (1.0, 30.05), False, "it does not help"),
        ((1.0, 30.0), (1.0, 29.0), False, "it does not help"),
    ],
)
def test_what_hurts_is_not_kept(
    made: Quantized,
    before: tuple[float, float],
    after: tuple[float, float],
    kept: bool,
    words: str,
) -> None:
    old, new = trial(made, *before), trial(made, *after)
    found, reason = verdict(old, new, {"y": before[1]}, {"y": 20.0}, 1.0)
    assert found is kept and words in reason
