"""A network that grows: the values that nodes may read, and what makers of nodes ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from differential.network import Network, Node, Shape, Value

Maker = Callable[["Draft", str], object]  # adds a node of that kind
Function = Callable[[np.ndarray], np.ndarray]
# One, primes and odd sizes more often than powers of two.
SIZES = (1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 11, 13, 16, 17)
MOST_ELEMENTS = 6000
MOST_MACS = 400_000
LARGEST = 64.0  # scales of calibrated networks stay below 1
_WEIGHT_SPREAD = 73  # standard deviation of whole numbers in -127..127


class Unsuitable(Exception):
    """No value is there that the op could take."""


def only(dtype: str, maker: Maker) -> Maker:
    """For networks of one type: a runtime has no kernel of the other."""

    def make(draft: Draft, kind: str) -> object:
        if draft.dtype != dtype:
            raise Unsuitable
        return maker(draft, kind)

    return make


class Draft:
    """`dtype` is that of all activations; `live` are the values that a node may read."""

    def __init__(self, format: str, seed: int) -> None:
        self.format = format
        self.rng = Random(seed)
        self.noise = np.random.default_rng(seed)
        self.dtype = self.rng.choice(("int8", "int8", "uint8"))
        self.opset = self.rng.choice((17, 17, 21))
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self.live: list[Value] = []
        self.unread: set[str] = set()

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def choose(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def size(self) -> int:
        return self.rng.choice(SIZES)

    # --- Values to read ---

    def pick(self, *ranks: int, fits: Callable[[Value], bool] = lambda value: True) -> Value:
        """A quantized value; those that nobody has read come first more often."""
        return self.pick_any(
            lambda v: v.dtype == self.dtype and (not ranks or len(v.shape) in ranks) and fits(v)
        )

    def image(self, *ranks: int) -> Value:
        """What windows slide over; one picture mostly, because an NPU refuses more."""
        several = self.chance(0.03)
        return self.pick(*(ranks or (4,)), fits=lambda v: several or v.shape[0] == 1)

    def pick_any(self, fits: Callable[[Value], bool]) -> Value:
        values = [value for value in self.live if fits(value)]
        fresh = [value for value in values if value.name in self.unread]
        if not values:
            raise Unsuitable
        return self.rng.choice(fresh if fresh and self.chance(0.7) else values)

    def pick_within(self, low: float, high: float, *ranks: int) -> Value:
        """A value whose whole range lies inside, or one of random weights that does."""
        try:
            return self.pick(*ranks, fits=lambda v: low <= v.limits[0] and v.limits[1] <= high)
        except Unsuitable:
            return self.requantized(self.pick(*ranks), low, high)

    def requantized(self, x: Value, low: float, high: float) -> Value:
        """The same values cut to a range, by a node of its own."""
        result = self.value(x.shape, max(low, -8.0), min(high, 8.0), exact=True)
        if self.format == "tflite":
            return self.add("QUANTIZE", x, result)
        limits = (self.constant(np.float32(limit)) for limit in result.limits)
        return self.add("Clip", (x, *limits), result)

    # --- Values to make ---

    def name(self) -> str:
        return f"t{len(self.values)}"

    def held(self, value: Value) -> Value:
        self.values[value.name] = value
        return value

    def value(
        self, shape: Shape, low: float, high: float, exact: bool = False, dtype: str = ""
    ) -> Value:
        """A quantized value for about that range, 0 included; `exact` does not cut it."""
        self.check(shape)
        factor = 1.0 if exact else self.rng.uniform(0.6, 1.4)
        low, high = max(min(low, 0.0) * factor, -LARGEST), min(max(high, 0.0) * factor, LARGEST)
        if high - low < 1e-4:
            high = low + 1e-4
        dtype = dtype or self.dtype
        whole = np.iinfo(dtype)
        scale = float(np.float32((high - low) / 255))
        zero = int(np.clip(round(whole.min - low / scale), whole.min, whole.max))
        return self.held(Value(self.name(), shape, dtype, (scale,), zero))

    def about(self, shape: Shape, reach: float) -> Value:
        """A quantized value of about +-reach."""
        return self.value(shape, -reach, reach)

    def results_of(self, f: Function, x: Value) -> Value:
        """A quantized value for what a function makes of all that x can be."""
        with np.errstate(all="ignore"):
            results = f(np.linspace(*x.limits, 256))
        finite = results[np.isfinite(results)]
        return self.value(x.shape, float(finite.min(initial=0.0)), float(finite.max(initial=0.1)))

    def like(self, x: Value, shape: Shape) -> Value:
        self.check(shape)
        return self.held(Value(self.name(), shape, x.dtype, x.scales, x.zero_point))

    def fixed(self, shape: Shape, scale: float, zero: int) -> Value:
        """`zero` is that of int8."""
        self.check(shape)
        shifted = zero + 128 if self.dtype == "uint8" else zero
        return self.held(Value(self.name(), shape, self.dtype, (scale,), shifted))

    def plain(self, shape: Shape, dtype: str) -> Value:
        """Without a scale: truth, places, real numbers between two nodes."""
        self.check(shape)
        return self.held(Value(self.name(), shape, dtype))

    def constant(self, data: Any, dtype: str = "") -> Value:
        array = np.asarray(data, dtype or None)
        return self.held(Value(self.name(), array.shape, str(array.dtype), data=array))

    def operand(self, shape: Shape, low: float, high: float) -> Value:
        """A quantized constant."""
        value = self.value(shape, low, high)
        return self.with_noise(value)

    def with_noise(self, value: Value) -> Value:
        whole = np.iinfo(value.dtype)
        data = self.noise.integers(whole.min, whole.max, value.shape, endpoint=True)
        return self.held(
            Value(
                value.name,
                value.shape,
                value.dtype,
                value.scales,
                value.zero_point,
                data=data.astype(value.dtype),
            )
        )

    def weights(self, shape: Shape, axis: int, inner: int, single: bool = False) -> Value:
        """Constant weights; outputs of `inner` products stay about as large as the inputs.

        uint8 networks of TFLite have uint8 weights with a zero point and one scale.
        """
        old = self.dtype == "uint8" and (self.format == "tflite" or self.chance(0.3))
        channels = 1 if old or single or self.chance(0.3) else shape[axis]
        spread = self.noise.uniform(0.3, 1.5, channels) / (_WEIGHT_SPREAD * inner**0.5)
        scales = tuple(float(scale) for scale in spread.astype(np.float32))
        zero = int(self.noise.integers(100, 156)) if old else 0
        data = self.noise.integers(-127, 128, shape) + (128 if old else 0)
        dtype = "uint8" if old else "int8"
        axis = axis if channels > 1 else 0
        return self.held(Value(self.name(), shape, dtype, scales, zero, axis, data.astype(dtype)))

    def bias(self, x: Value, weights: Value, count: int) -> Value:
        scales = tuple(float(np.float32(x.scale) * np.float32(s)) for s in weights.scales)
        reach = max(1.0, np.abs(x.limits).max() / max(scales) / 4)
        data = self.noise.integers(-reach, reach, count, endpoint=True).astype(np.int32)
        return self.held(Value(self.name(), (count,), "int32", scales, data=data))

    # --- Nodes ---

    def add(
        self,
        kind: str,
        inputs: Value | Sequence[Value | None],
        outputs: Value | Sequence[Value],
        raw: bool = False,
        inner: Sequence[Value] = (),
        **options: Any,
    ) -> Value:
        """Append a node; its outputs may be read from now on. Returns the first of them."""
        read = (inputs,) if isinstance(inputs, Value) else inputs
        made = (outputs,) if isinstance(outputs, Value) else tuple(outputs)
        names = tuple(value.name if value else "" for value in read)
        results = tuple(value.name for value in made)
        scales = tuple(value.name for value in inner)
        self.nodes.append(Node(kind, names, results, options, scales, raw))
        self.live += made
        self.unread.difference_update(names)
        self.unread.update(results)
        return made[0]

    def check(self, shape: Shape) -> None:
        if min(shape, default=1) < 1 or np.prod(shape, dtype=float) > MOST_ELEMENTS:
            raise Unsuitable

    def check_macs(self, macs: int) -> None:
        if macs > MOST_MACS:
            raise Unsuitable

    def input(self, shape: Shape) -> Value:
        value = self.value(shape, -self.rng.uniform(0.0, 4.0), self.rng.uniform(0.5, 4.0))
        self.inputs.append(value.name)
        self.live.append(value)
        self.unread.add(value.name)
        return value

    def network(self, **border: Any) -> Network:
        """All that nobody reads goes out, and now and then what is read as well."""
        made = [name for node in self.nodes for name in node.outputs]
        outputs = [n for n in made if n in self.unread or self.chance(0.04)]
        return Network(
            self.format,
            self.values,
            tuple(self.nodes),
            tuple(self.inputs),
            tuple(outputs),
            opset=self.opset,
            **border,
        )
