"""Whole networks, tensor by tensor, against the runtimes they come from; needs ../shared/data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuscope.files.load import load_model
from npuscope.graph import Graph, Tensor
from npuscope.ops.run import plan_of, trace
from npuscope.ops.table import total_macs
from npuscope.profiling.runtimes import litert_interpreter, onnxruntime_session

# network -> seeded inputs
NETWORKS = {
    "vww_96_int8": 5,
    "kws_ref_model": 5,
    "ad01_int8": 5,
    "str_ww_ref_model": 5,
    "pretrainedResnet_quant": 5,
    "mobilenet_v1_0.25_96_tfs_int8": 5,
    "mobilenet_v2_0.35_128_fft_int8": 3,
    "mobilenet_v2_1.0_224_fft_int8": 1,
    "baseline_conv2d_16f_3x3_int8": 2,
    "baseline_conv2d_1x1_int8": 2,
    "baseline_conv2d_32f_5x5_int8": 2,
    "baseline_conv2d_3x3_int8": 2,
    "baseline_conv2d_pool_int8": 2,
    "baseline_depthwise_3x3_int8": 2,
    "033_palm_detection_full_quant_pc_uf_od": 1,
    "blazeface_front_128_quant_pc_ff_od_wider_face": 1,
    "fast_depth_224_int8_pc": 1,
    "fdmobilenet_0.25_128_tfs_int8": 1,
    "squeezenetv1.1_128_tfs_int8": 1,
    "st_efficientnet_lc_v1_224_tfs_int8": 1,
    "st_movenet_lightning_heatmaps_192_int8_pc": 1,
    "st_yolo_lc_v1_192_int8": 1,
    "st_yolo_x_nano_192_0.33_0.25_int8": 1,
    "yamnet_e256_64x96_tl_int8": 1,
    "yolo11n_256_quant_pc_ii_seg_coco80-st": 1,
    "yolov8n_192_quant_pc_uf_od_coco-person": 1,
    "yolov8n_256_quant_pc_ii_seg_coco-st": 1,
    "yolov8n_256_quant_pc_uf_pose_coco-st": 1,
}


def seeded(tensor: Tensor, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if tensor.dtype.is_float:
        return rng.normal(size=tensor.shape).astype(np.float32)
    low, high = tensor.dtype.limits
    return rng.integers(low, high, tensor.shape, tensor.dtype.numpy, endpoint=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_tensor_is_exact(name: str, shared_models: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai_edge_litert is not installed")
    path = shared_models / f"{name}.tflite"
    interpreter = litert_interpreter(str(path), keep_all=True)
    details = {detail["name"]: detail["index"] for detail in interpreter.get_tensor_details()}
    graph = load_model(path)
    source = graph.tensors[graph.inputs[0]]
    for seed in range(NETWORKS[name]):
        values = seeded(source, seed)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
        interpreter.invoke()
        found = trace(graph, {source.name: values})
        assert found.keys() <= details.keys()
        for tensor, value in found.items():
            wanted = interpreter.get_tensor(details[tensor])
            np.testing.assert_array_equal(value, wanted.reshape(value.shape), err_msg=tensor)


ONNX_NETWORKS = (
    "darknettiny_pt_224_rand_qdq_int8",
    "fdmobilenet_a025_pt_224_rand_qdq_int8",
    "mnasnet_d050_pt_224_rand_qdq_int8",
    "mobilenetv2_a025_pt_224_rand_qdq_int8",
    "preresnet18_a025_pt_224_rand_qdq_int8",
    "shufflenetv2_x050_pt_224_rand_qdq_int8",
    "sqnxt23_x100_pt_224_rand_qdq_int8",
)


@pytest.mark.parametrize("name", ONNX_NETWORKS)
def test_every_op_is_within_a_step_of_onnxruntime(name: str, shared_models: Path) -> None:
    """Each op on onnxruntime's own inputs. It sums floats in an order that its CPU decides, so ties
    go either way; behind many layers they would decide the output."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = shared_models / f"{name}.onnx"
    graph = load_model(path)
    plan = plan_of(graph)
    values = {**plan.constants, **onnxruntime_values(path, graph)}
    compared = 0
    for stage in plan.stages:
        (output, *_), inputs = stage.op.outputs, [values[name] for name in stage.reads]
        found = stage.step(inputs)[0]
        wanted = values.setdefault(output, found)
        if found is wanted:
            continue
        compared += 1
        apart = np.abs(found.astype(np.int32) - wanted)
        assert apart.max() <= 1 and (apart > 0).mean() < 0.05, (output, apart.max())
    assert compared >= 0.6 * len(plan.stages)


def onnxruntime_values(path: Path, graph: Graph) -> dict[str, np.ndarray]:
    """Every quantized tensor of a seeded run under our name, channels last."""
    onnx = pytest.importorskip("onnx")
    ending = "_QuantizeLinear_Output"
    model = onnx.load(path)
    made = {name for node in model.graph.node for name in node.output if name.endswith(ending)}
    ours = {name for op in graph.ops for name in op.outputs}
    wanted = sorted(name for name in made if name.removesuffix(ending) in ours)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    session = onnxruntime_session(model.SerializeToString())
    source = graph.tensors[graph.inputs[0]]
    values = seeded(source, 0)
    found = session.run(wanted, {source.name: real(values, source)})
    named = zip((name.removesuffix(ending) for name in wanted), found, strict=True)
    maps = {name: channels_last(value) for name, value in named}
    # Tensors of rank 5, between the reshapes of a shuffle, lie in another order.
    same = {name: value for name, value in maps.items() if value.ndim <= 4}
    return {source.name: values} | same


def channels_last(value: np.ndarray) -> np.ndarray:
    return value.transpose(0, 2, 3, 1) if value.ndim == 4 else value


def real(values: np.ndarray, tensor: Tensor) -> np.ndarray:
    if tensor.quant is None:
        return values
    steps = values.astype(np.int32) - tensor.quant.zero_point
    return np.asarray(steps.astype(np.float32) * np.float32(tensor.quant.scale))


def test_every_network_loads(shared_models: Path) -> None:
    paths = [
        path for path in sorted(shared_models.iterdir()) if path.suffix in (".tflite", ".onnx")
    ]
    graphs: list[Graph] = [load_model(path) for path in paths]
    assert len(graphs) > 45  # the public ones are 50 and more
    assert all(total_macs(graph) > 0 and graph.parameters() > 0 for graph in graphs)
