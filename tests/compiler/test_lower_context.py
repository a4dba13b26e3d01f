"""What lowering asks of a value."""

from __future__ import annotations

import pytest

from npuscope.compiler.lower.context import quant_pair, tensor_value
from npuscope.errors import ModelError
from npuscope.graph.model import DType, Quant, Tensor


def test_a_value_without_scales_is_named() -> None:
    shape = (1, 4, 4, 8)
    assert quant_pair(tensor_value(Tensor("y", shape, DType.INT8, Quant((0.5,), (3,))))) == (0.5, 3)
    with pytest.raises(ModelError) as caught:
        quant_pair(tensor_value(Tensor("x", shape, DType.INT8)))
    assert str(caught.value) == "tensor 'x': the tensor has no quantization"
