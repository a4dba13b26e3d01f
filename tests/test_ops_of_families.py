"""What becomes of each op on each family of machines: mapped, on the CPU, or refused.

A new op has to be decided about here, for every family."""

from __future__ import annotations

import pytest

from npuscope.families.many_core.compiler.kinds import KERNELS, group_of
from npuscope.machine.npu_ops import SUPPORT
from npuscope.ops.row import named
from npuscope.ops.table import OPS, having
from npuscope.ops.traits import Trait

# Units and engines of the NPU where no rule refuses; C kernels; time alone, without code.
STM32N6 = {
    "mapped": """
        Abs Add AveragePool BatchNorm Clip Concat Conv2D Elu Erf Exp FullyConnected Gelu
        HardSigmoid HardSwish Identity LeakyRelu MaxPool Mean Mul Neg PRelu Pad Quantize Reshape
        Resize Sigmoid Slice Sqrt Square Sub Tanh Transpose
    """,
    "on the CPU": """
        Acos Acosh And ArgMax ArgMin Asin Asinh Atan Atanh BroadcastTo Cast Ceil Celu Cos Cosh
        DepthToSpace Dequantize Div Equal Floor Gather Greater GreaterEqual GroupNorm InstanceNorm
        L2Normalization LayerNorm Less LessEqual Log LogSoftmax MatMul Max Min MirrorPad Mish Not
        NotEqual Or Pow Reciprocal ReduceL2 ReduceMax ReduceMin ReduceProd ReduceSum
        ReverseSequence Round Rsqrt Selu Shrink Sign Sin Sinh Softmax Softplus Softsign
        SpaceToDepth Split SquaredDifference Tan ThresholdedRelu Tile TransposeConv Where
    """,
    "refused": """
        CumSum FloorDiv GRU GatherElements GatherND IsInf IsNaN LRN LSTM Mod OneHot RNN
        ScatterElements ScatterND SequenceLSTM SvdfOutput SvdfState TopK Trilu Unknown Xor
    """,
}
# Thread groups of a core; ops that others take the place of.
MANY_CORE = {
    "HMX": """
        Conv2D FullyConnected MatMul TransposeConv
    """,
    "HVX": """
        Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNorm
        BroadcastTo Cast Ceil Celu Clip Concat Cos Cosh CumSum DepthToSpace Dequantize Div Elu
        Equal Erf Exp Floor FloorDiv GRU Gather GatherElements GatherND Greater GreaterEqual
        GroupNorm HardSigmoid HardSwish Identity InstanceNorm IsInf IsNaN L2Normalization LRN LSTM
        LayerNorm LeakyRelu Less LessEqual Log LogSoftmax Max MaxPool Mean Min MirrorPad Mish Mod
        Mul Neg Not NotEqual OneHot Or PRelu Pad Pow Quantize RNN Reciprocal ReduceL2 ReduceMax
        ReduceMin ReduceProd ReduceSum Reshape Resize ReverseSequence Round Rsqrt ScatterElements
        ScatterND Selu SequenceLSTM Shrink Sigmoid Sign Sin Sinh Slice Softmax Softplus Softsign
        SpaceToDepth Sqrt Square SquaredDifference Sub SvdfOutput SvdfState Tan Tanh
        ThresholdedRelu Tile TopK Transpose Trilu Unknown Where Xor
    """,
    "rewritten": """
        Gelu Split
    """,
}


def _fates(table: dict[str, str]) -> dict[str, str]:
    return {kind: fate for fate, kinds in table.items() for kind in kinds.split()}


def _on_stm32n6(kind: str) -> str:
    row = SUPPORT[kind]
    return "mapped" if row.lowering else "on the CPU" if row.kernel else "refused"


def _on_cores(kind: str) -> str:
    row = KERNELS[kind]
    return "rewritten" if row.rewritten else group_of(row.name).name


def test_every_op_is_decided_about_for_every_family() -> None:
    assert {kind: _on_stm32n6(kind) for kind in OPS} == _fates(STM32N6)
    assert {kind: _on_cores(kind) for kind in OPS} == _fates(MANY_CORE)
    assert SUPPORT.keys() == KERNELS.keys() == OPS.keys()


@pytest.mark.parametrize("kind", SUPPORT)
def test_functions_that_an_stm32n6_row_names_exist(kind: str) -> None:
    row = SUPPORT[kind]
    kernel = row.kernel
    places = {
        "npuscope.compiler.lower": (row.lowering,),
        "npuscope.program.network_c": (row.library, row.mover),
        "npuscope.program.kernel_calls": (kernel.build, kernel.litert, kernel.qdq)
        if kernel
        else (),
    }
    for package, names in places.items():
        assert all(callable(named(package, name)) for name in names if name)


@pytest.mark.parametrize("kind", KERNELS)
def test_functions_that_a_core_row_names_exist(kind: str) -> None:
    assert callable(named("npuscope.families.many_core.compiler", KERNELS[kind].needs))


def test_a_unit_needs_a_lowering() -> None:
    assert all(row.lowering for row in SUPPORT.values() if row.unit)


def test_traits_that_follow_from_others() -> None:
    assert having(Trait.FUNCTION, Trait.ARITHMETIC, Trait.COMPARISON, Trait.LOGIC) <= having(
        Trait.ELEMENTWISE
    )
    assert having(Trait.RESCALING) < having(Trait.CONVERSION) <= having(Trait.ELEMENTWISE)
    assert having(Trait.ELEMENTWISE, Trait.POOL) <= having(Trait.KEEPS_CHANNELS)
    assert having(Trait.VIEW) < having(Trait.MOVES) <= having(Trait.INTEGER_FORM)
    assert having(Trait.LAYER) < having(Trait.PRODUCT)


@pytest.mark.parametrize("trait", Trait)
def test_every_trait_tells_ops_apart(trait: Trait) -> None:
    assert 0 < len(having(trait)) < len(OPS)


def test_only_moves_leave_a_part_of_their_inputs_alone() -> None:
    assert {kind for kind, row in OPS.items() if row.data_inputs is not None} <= having(Trait.MOVES)
