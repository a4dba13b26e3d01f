"""Plans as QDQ files: what is integer, and which clamps may go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from models_onnx import OnnxWriter
from npuscope.quantizing.onnx_work import OnnxWork
from npuscope.quantizing.plan import ActivationRange, RangePlan
from npuscope.structs import replace
from quantizing.float_nets import SIZE, conv, pictures, small_net, weights

pytest.importorskip("onnxruntime")
SAMPLES = [{"image": picture[None]} for picture in pictures(4)]


def planned(work: OnnxWork) -> RangePlan:
    return RangePlan("minmax", work.ranges("minmax", SAMPLES, False, lambda text: None))


def kinds(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.ModelProto.FromString(data).graph.node]


def test_slopes_are_integers_unless_the_plan_is_narrow(tmp_path: Path) -> None:
    work = OnnxWork(small_net(tmp_path), None, tmp_path)
    plan = planned(work)
    for narrow in (False, True):
        graph = onnx.ModelProto.FromString(work.make(replace(plan, narrow=narrow))).graph
        (prelu,) = [node for node in graph.node if node.op_type == "PRelu"]
        held = {entry.name for entry in graph.initializer}
        assert (prelu.input[1] in held) is narrow  # else a DequantizeLinear makes it


@pytest.mark.parametrize(
    ("found", "stays"),
    [
        (ActivationRange(0.0, 6.0), False),
        (ActivationRange(0.0, 4.0), False),
        (ActivationRange(0.0, 9.0), True),  # the steps would let through what the clamp cuts
        (ActivationRange(-3.0, 6.0), True),
    ],
)
def test_a_clamp_goes_only_if_the_steps_clamp_as_it_does(
    tmp_path: Path, found: ActivationRange, stays: bool
) -> None:
    w = OnnxWriter()
    x = conv(w, w.input("image", (1, 3, SIZE, SIZE)), weights(4, 3, 3, 3, spread=3.0))
    x = w.node("Clip", x, w.constant(np.float32(0)), w.constant(np.float32(6)), output="clamped")
    w.node("Identity", conv(w, x, weights(4, 4, 1, 1)), output="y")
    path = tmp_path / "clip.onnx"
    path.write_bytes(w.finish({"y": None}))
    work = OnnxWork(path, None, tmp_path)
    plan = planned(work).with_ranges({"clamped": found})
    data = work.make(plan)
    assert ("Clip" in kinds(data)) is stays
    values = [v for _, v in work.inside(data, plan, SAMPLES)]
    assert max(float(v["clamped"].max()) for v in values) <= 6.0 + found.scale
