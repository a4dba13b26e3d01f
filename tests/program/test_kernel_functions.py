"""The functions that network.c may call are those of the C library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npuscope.graph.model import Attrs, Numerics
from npuscope.machine.npu_ops import SUPPORT
from npuscope.ops.table import OPS
from npuscope.ops.unknown import UnknownAttrs
from npuscope.program.kernel_calls import model
from npuscope.program.kernel_calls.build import kernel_call
from npuscope.program.kernel_calls.model import (
    ElementType,
    KernelOperand,
    KernelTask,
    NoKernel,
    plain_call,
)
from npuscope.program.model import Buffer, Call

KERNELS = Path(__file__).parents[2] / "firmware" / "kernels"


def library_functions() -> set[str]:
    """Defined in so many words, or by a macro for functions of one value."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in KERNELS.glob("*.c"))
    return {
        *re.findall(r"^void npuscope_(\w+)\(", source, re.MULTILINE),
        *re.findall(r"^KERNEL\((\w+)", source, re.MULTILINE),
    }


def test_every_op_with_a_kernel_of_its_name_has_one() -> None:
    plain = {
        model.snake(kind) for kind, row in SUPPORT.items() if row.kernel and not row.kernel.build
    }
    assert library_functions() >= plain


def test_every_kind_with_a_function_of_its_name_says_so() -> None:
    named = {kind for kind in OPS if model.snake(kind) in library_functions()}
    assert named <= {kind for kind, row in SUPPORT.items() if row.kernel}


@pytest.mark.parametrize("kind", ["TopK", "LSTM", "CumSum", "Xor"])
def test_a_kind_without_a_function(kind: str) -> None:
    operand = KernelOperand((4,), ElementType.float32)
    with pytest.raises(NoKernel, match="the library has no such kernel"):
        plain_call(KernelTask(kind, Numerics.QDQ, (operand,), (operand,), Attrs()))


def test_an_unknown_op() -> None:
    buffers = {name: Buffer(name, 16, (4,), 32, 4, is_float=True) for name in "xy"}
    attrs = UnknownAttrs("Det", (4,))
    args = (("name", attrs.name), ("shape", attrs.shape), ("part", 0), ("numerics", "qdq"))
    with pytest.raises(NoKernel, match="the library has no such kernel"):
        kernel_call(Call("Unknown", ("x",), ("y",), args), buffers)
