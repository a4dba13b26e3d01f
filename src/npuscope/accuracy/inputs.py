"""Inputs of a network: real values to what it takes, and the range that it was trained with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.accuracy.pictures import FORMS, ImageForm, formed
from npuscope.errors import FileError
from npuscope.graph.model import DType, Graph, Quant
from npuscope.text import safe_terminal

_NEAR = 0.04  # of a range: calibration rarely meets the last value


class NetworkInput(Struct, frozen=True):
    """`quant` is that of the input, or of the Quantize right behind a float one."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    quant: Quant | None

    @property
    def reals(self) -> tuple[float, float] | None:
        """Smallest and largest value that it can hold, where quantization tells."""
        if self.quant is None:
            return None
        low, high = (0, 255) if self.dtype == np.uint8 else (-128, 127)
        return tuple((q - self.quant.zero_point) * self.quant.scale for q in (low, high))  # type: ignore[return-value]


def network_inputs(graph: Graph) -> tuple[NetworkInput, ...]:
    readers = graph.consumers()
    inputs = []
    for name in graph.inputs:
        tensor, quant = graph.tensor(name), graph.tensor(name).quant
        for op in readers[name]:
            if quant is None and op.kind == "Quantize":
                quant = graph.output_tensor(op).quant
        inputs.append(NetworkInput(name, tensor.shape, tensor.dtype.numpy, quant))
    return tuple(inputs)


def likely_form(network: NetworkInput) -> tuple[ImageForm, str]:
    """The preprocessing that fits the range of the input, and why."""
    if network.reals is None:
        return FORMS["unit"], "assumed: the input does not tell its range"
    low, high = network.reals
    ranges = {"unit": (0.0, 1.0), "signed": (-1.0, 1.0), "uint8": (0.0, 255.0)}
    for name, (least, most) in ranges.items():
        width = _NEAR * (most - least)
        if abs(low - least) <= width and abs(high - most) <= width:
            return FORMS[name], f"the input holds {low:.3g} to {high:.3g}"
    name = list(FORMS)[-1] if low < -1.5 and high < 4 else "unit"
    return FORMS[name], f"guessed: the input holds {low:.3g} to {high:.3g}"


def fitted(values: np.ndarray, network: NetworkInput, where: str) -> np.ndarray:
    """With the shape of the input; rows, columns and channels may stand in the other order."""
    shape, one = network.shape, network.shape[1:]
    if values.dtype.kind not in "fiub" or not (np.abs(values) <= np.finfo(np.float32).max).all():
        raise FileError(
            f"a sample for input '{safe_terminal(network.name)}' has values that no float32 holds",
            where=where,
        )
    plain = values[0] if values.shape[:1] == (1,) and values.ndim == len(shape) else values
    if plain.shape == one or [n for n in plain.shape if n > 1] == [n for n in one if n > 1]:
        return plain.reshape(shape)  # axes of one element may be missing
    if plain.ndim == len(one) == 3:
        for order in ((2, 0, 1), (1, 2, 0)):
            if plain.transpose(order).shape == one:
                return np.ascontiguousarray(plain.transpose(order)).reshape(shape)
    raise FileError(
        f"a sample has the shape {values.shape}, but input '{safe_terminal(network.name)}' is "
        f"{shape}",
        where=where,
        hint="the first axis counts the samples, the others are those of the input",
    )


def holds_pixels(values: np.ndarray, network: NetworkInput) -> bool:
    return values.dtype == np.uint8 and network.dtype != np.uint8 and len(network.shape) == 4


def as_reals(
    values: np.ndarray,
    network: NetworkInput,
    form: ImageForm,
    change: Callable[[np.ndarray], np.ndarray] | None,
) -> np.ndarray:
    """Integers of the input's own type are what it takes; bytes for another type are pixels."""
    if values.dtype.kind in "iu" and values.dtype == network.dtype and network.quant is not None:
        quant = network.quant
        reals = (values.astype(np.float32) - quant.zero_point) * np.float32(quant.scale)
    elif holds_pixels(values, network):
        axis = 1 if values.shape[1] in (1, 3) and values.shape[3] not in (1, 3) else 3
        pixels = np.moveaxis(values.astype(np.float32), axis, -1)
        return np.moveaxis(formed(pixels if change is None else change(pixels), form), -1, axis)
    else:
        reals = values.astype(np.float32)
    return reals if change is None else change(reals)


def given(
    graph: Graph, reals: Mapping[str, np.ndarray], inputs: tuple[NetworkInput, ...]
) -> dict[str, np.ndarray]:
    """Real values of one network's inputs, as another form of it takes them: in order."""
    sample = {}
    for (name, values), network in zip(reals.items(), inputs, strict=True):
        shaped = fitted(values, network, name)
        tensor = graph.tensor(network.name)
        if tensor.quant is None or tensor.dtype is DType.FLOAT32:
            sample[network.name] = shaped.astype(tensor.dtype.numpy)
            continue
        low, high = tensor.dtype.limits
        with np.errstate(over="ignore"):  # what is too large saturates
            steps = np.rint(shaped / np.float32(tensor.quant.scale)) + tensor.quant.zero_point
        sample[network.name] = np.clip(steps, low, high).astype(tensor.dtype.numpy)
    return sample
