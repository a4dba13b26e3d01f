"""Public builds of the vendor's compiler, read as far as the tests compare with them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compiler.nets import Net
from npuscope.graph.model import Activation, Graph

FOLDER = (Path(__file__).parents[2] / ".." / "shared" / "data" / "artefacts").resolve()
MOBILENET_21 = (
    "AlexGraefe__STM32N6Example/.ai/network_mobilenet_v2_128_0.5_QDQ_quant.onnx_c_info.json"
)
MOBILENET_30 = "AlexGraefe__STM32N6Example/st_ai_output/network_c_info.json"
MOBILENET_30_AGAIN = "AlexGraefe__STM32N6Example/st_ai_ws/neural_art__network/c_info.json"
TIME_SERIES_40 = (
    "KRJames-lab__nucleo-n657x0-q_Time-series-NPU-Accle-Tutorial/"
    "Appli/X-CUBE-AI/App/network_c_info.json"
)
CENTERFACE_21 = "PeleAB__STM32N6-FaceRecognition/converted_models/face_detection_c_info.json"
MOBILEFACENET_21 = "PeleAB__STM32N6-FaceRecognition/converted_models/face_recognition_c_info.json"


@dataclass(frozen=True)
class VendorEpoch:
    """Operators in order with the units of a series pipe counted apart."""

    operators: tuple[str, ...]
    convs: int
    activations: tuple[int, ...]  # buffers read, by id
    weights: tuple[tuple[int, ...], ...]
    output: int


class Build:
    """One c_info.json."""

    def __init__(self, name: str) -> None:
        path = FOLDER / name
        if not path.is_file():
            pytest.skip(f"{name} is not on this machine")
        self.info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.buffers: dict[int, dict[str, Any]] = {b["id"]: b for b in self.info["buffers"]}

    @property
    def epochs(self) -> list[VendorEpoch]:
        """Without the first entry (parameters) and the last (return)."""
        return [self._epoch(node) for node in self.info["graphs"][0]["nodes"][1:-1]]

    def _epoch(self, node: dict[str, Any]) -> VendorEpoch:
        kinds = [_kind(operator) for operator in node["subgraph_nodes"]]
        names = [operator["name"] for operator in node["subgraph_nodes"]]
        # Stages of one pipe and pieces of one kernel are named after their convolution.
        first = [k != "Conv" or "ca_pipe" not in n for k, n in zip(kinds, names, strict=True)]
        known = [self.buffers[i] for i in node["inputs"] if i in self.buffers]
        return VendorEpoch(
            tuple(k for k, alone in zip(kinds, first, strict=True) if alone),
            kinds.count("Conv"),
            tuple(b["id"] for b in known if not b["is_param"]),
            tuple(tuple(b["shape"]) for b in known if "_weights" in b["name"]),
            next((i for i in node["outputs"] if self.buffers[i]["nbits"] == 8), 0),
        )

    def quant(self, buffer: int) -> tuple[float, int]:
        known = self.buffers[buffer]["intq"]
        return known["scales"][0], known["offsets"][0]

    def marks(self) -> dict[str, int]:
        """Highest byte used in every pool that may be written and is no sum of others."""
        return {
            pool["name"]: pool["used_size_bytes"]
            for pool in self.info["memory_pools"]
            if pool["rights"] == "ACC_WRITE" and not pool["subpools"]
        }


def _kind(operator: dict[str, Any]) -> str:
    """4.0 has a type, 2.1 only a description."""
    return operator.get("type") or operator["description"].removeprefix("Node kind=")


def rebuilt(build: Build, seed: int = 0) -> Graph:
    """The network behind a build of one-conv epochs: shapes, scales and zero points as found.

    Weights are random: no choice of the compiler looks at them.
    """
    net = Net(seed)
    first = build.buffers[build.info["graphs"][0]["inputs"][0]]
    made = {first["id"]: net.input(tuple(first["shape"]), build.quant(first["id"]))}
    for epoch in build.epochs:
        made[epoch.output] = _rebuild_epoch(net, build, epoch, made)
        made.update(_views(build, epoch.output, made[epoch.output]))
    return net.graph(made[build.info["graphs"][0]["outputs"][0]])


def _views(build: Build, buffer: int, name: str) -> dict[int, str]:
    """Buffers that show the same bytes at the same time under another name."""
    if not buffer:
        return {}
    home = build.buffers[buffer]
    same = ("mpool_id", "offset_start", "size_bytes", "epochs")
    others = (b for b in build.buffers.values() if all(b[key] == home[key] for key in same))
    return {b["id"]: name for b in others}


def _rebuild_epoch(net: Net, build: Build, epoch: VendorEpoch, made: dict[int, str]) -> str:
    if epoch.operators == ("Transpose",):  # moves nothing: the input is channel-last already
        image = next(iter(made))
        made.update({b["id"]: made[image] for b in _same_place(build, image)})
        return made[image]
    source = made[epoch.activations[0]]
    if epoch.operators == ("Identity",):
        return net.transpose(source, (0, 2, 3, 1))
    if epoch.operators == ("Softmax",):
        return net.softmax(source)
    scale, zero = build.quant(epoch.output)
    if "Sub" in epoch.operators:  # what is stored has its zero point of -128 shifted out
        zero = -128
    if "AveragePool" in epoch.operators:
        return net.mean(source, (scale, zero))
    return _rebuild_conv(net, build, epoch, made, (scale, zero))


def _rebuild_conv(
    net: Net, build: Build, epoch: VendorEpoch, made: dict[int, str], quant: tuple[float, int]
) -> str:
    source = made[epoch.activations[0]]
    outputs, per_kernel, *window = epoch.weights[0]
    activation = Activation.RELU if quant[1] == -128 else Activation.NONE
    if len(net.shape(source)) == 2:
        return net.dense(source, outputs, quant=quant)
    residual = [made[i] for i in epoch.activations if made[i] != source]
    depthwise = per_kernel != net.shape(source)[-1]
    stride = -(-net.shape(source)[1] // build.buffers[epoch.output]["shape"][2])
    own = (quant[0] * 0.8, 7) if residual else quant
    result = net.conv(
        source,
        0 if depthwise else outputs,
        (window[0], window[1]),
        (stride, stride),
        activation=Activation.NONE if residual else activation,
        quant=own,
    )
    return net.add(residual[0], result, quant=quant) if residual else result


def _same_place(build: Build, buffer: int) -> list[dict[str, Any]]:
    home = build.buffers[buffer]
    same = ("mpool_id", "offset_start", "size_bytes", "epochs")
    return [b for b in build.buffers.values() if all(b[key] == home[key] for key in same)]
