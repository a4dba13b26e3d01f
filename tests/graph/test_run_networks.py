"""Whole networks against LiteRT's reference kernels, tensor by tensor; needs ../shared/data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuscope.graph.load import load_model
from npuscope.graph.run import trace

NETWORKS = (
    "vww_96_int8",
    "kws_ref_model",
    "ad01_int8",
    "pretrainedResnet_quant",
    "mobilenet_v1_0.25_96_tfs_int8",
    "mobilenet_v2_0.35_128_fft_int8",
    "mobilenet_v2_1.0_224_fft_int8",
    "baseline_conv2d_16f_3x3_int8",
    "baseline_conv2d_1x1_int8",
    "baseline_conv2d_32f_5x5_int8",
    "baseline_conv2d_3x3_int8",
    "baseline_conv2d_pool_int8",
    "baseline_depthwise_3x3_int8",
)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_tensor_is_exact(name: str, shared_models: Path) -> None:
    litert = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="ai_edge_litert is not installed"
    )
    path = shared_models / f"{name}.tflite"
    interpreter = litert.Interpreter(
        str(path),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    details = {detail["name"]: detail["index"] for detail in interpreter.get_tensor_details()}
    graph = load_model(path)
    source = graph.tensors[graph.inputs[0]]
    for seed in range(10):
        limits = np.iinfo(source.dtype.value)
        values = np.random.default_rng(seed).integers(
            limits.min, limits.max, source.shape, source.dtype.value, endpoint=True
        )
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
        interpreter.invoke()
        found = trace(graph, {source.name: values})
        assert found.keys() <= details.keys()
        for tensor, value in found.items():
            wanted = interpreter.get_tensor(details[tensor])
            np.testing.assert_array_equal(value, wanted.reshape(value.shape), err_msg=tensor)
