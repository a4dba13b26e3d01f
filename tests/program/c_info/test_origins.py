"""Operators of a vendor program to layers of the model."""

from __future__ import annotations

import pytest

from npuscope.program.c_info import program_from_c_info, read_c_info, with_origins
from npuscope.program.model import Epoch, EpochKind
from npuscope.program.quant_json import QuantJson, QuantNode, read_quant_json
from npuscope.structs import replace
from program.c_info.small import ARTEFACTS
from program.sample import sample

QUANT = QuantJson(
    tensors={},
    nodes={
        "Conv2D_4": QuantNode(("stem/Relu", "stem/weights", "stem/bias")),
        "Conv2D_8": QuantNode(("block/Conv",)),
        "Add_31": QuantNode(("block/Add",)),
        "Gemm_75": QuantNode(("__FE_GENERATED__", "classes")),
        "Quantize_5": QuantNode(("__FE_GENERATED__",)),
    },
)


@pytest.mark.parametrize(
    ("operators", "layers"),
    [
        # What prepares the next layer's input does not make this epoch part of that layer.
        (("Conv2D_4", "Conv2D_4_off_bias_9", "Conv2D_8_suboff_12"), ("stem/Relu",)),
        (("Conv2D_8", "Conv2D_8_ca_pipe_1", "Add_31"), ("block/Conv", "block/Add")),
        (("Gemm_75_conv_4", "Gemm_75_conv_4_ca_pipe_1"), ("classes",)),
        (("Conv2D_8_suboff_12",), ("block/Conv",)),
        (("Quantize_5",), ()),
        (("Identity_inserted_id445",), ()),
        ((), ()),
    ],
)
def test_layers_of_operators(operators: tuple[str, ...], layers: tuple[str, ...]) -> None:
    program = replace(sample(), epochs=(Epoch(1, 1, EpochKind.HW, origin=operators),))
    assert with_origins(program, QUANT).epochs[0].origin == layers


def test_a_public_build() -> None:
    """Every epoch with a convolution of the front end is traced to its layer."""
    folder = ARTEFACTS / "AlexGraefe__STM32N6Example" / "st_ai_output"
    if not folder.is_dir():
        pytest.skip("the public builds are not on this machine")
    program = program_from_c_info(read_c_info(folder / "network_c_info.json"))
    quant = read_quant_json(next(folder.glob("*_Q.json")))
    assert quant.model_md5 == program.model_md5
    traced = with_origins(program, quant)
    known = [e for e in program.epochs if any(name in quant.nodes for name in e.origin)]
    numbers = {epoch.number for epoch in known}
    origins = [epoch.origin for epoch in traced.epochs if epoch.number in numbers]
    assert len(origins) > 40 and all(origins)
