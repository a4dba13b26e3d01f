"""Single layers of random geometry: kernels, strides, dilations and pads that do not match their
maps, primes, sizes of one, groups, one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from compiler.nets import Net, Pair, same_pads
from npuscope.graph.model import Activation, Graph, Numerics

T = TypeVar("T")
ZEROS = (0, -128, 3, -7, 127)
ACTIVATIONS = (Activation.NONE, Activation.NONE, Activation.RELU, Activation.RELU6)
_TRIES = 40


def random_layer(seed: int) -> Graph:
    """One or two convolutions; every third network has one dimension only."""
    net = Net(seed, (Numerics.LITERT, Numerics.QDQ)[seed % 2])
    one_row = net.random.random() < 0.3
    height = 1 if one_row else pick(net, (1, 2, 3, 4, 5, 7, 9, 10, 11, 14, 17))
    width = pick(net, (1, 2, 3, 4, 5, 7, 9, 11, 14, 16, 40))
    channels = pick(net, (1, 2, 3, 4, 5, 7, 8, 13, 16, 24, 31))
    x = net.input((1, height, width, channels), (0.02, pick(net, ZEROS)))
    if net.random.random() < 0.3:
        x = net.conv(x, channels, (1, 1), zero=pick(net, ZEROS))
    for _ in range(1 if net.random.random() < 0.7 else 2):
        x = _random_conv(net, x, one_row)
    return net.graph()


def _random_conv(net: Net, x: str, one_row: bool) -> str:
    _, *size, inputs = net.shape(x)
    for _ in range(_TRIES):
        window = (1 if one_row else pick(net, (1, 1, 2, 3, 3, 4, 5, 6, 7, 9)), _width(net))
        strides = (1 if one_row else pick(net, (1, 1, 1, 2, 3, 4)), pick(net, (1, 1, 1, 2, 3, 5)))
        dilations = (1, 1)
        if net.random.random() < 0.5:
            dilations = (1 if one_row else pick(net, (1, 2, 3, 4, 6, 12)), pick(net, (1, 2, 8, 16)))
        pads = _pads(net, (size[0], size[1]), window, strides, dilations)
        if pads is not None:
            break
    else:
        return net.conv(x, 8, (1, 1))
    channels, groups = _channels(net, inputs)
    return net.conv(
        x,
        channels,
        window,
        strides,
        pads,
        pick(net, ACTIVATIONS),
        zero=pick(net, (*ZEROS, None)),
        dilations=dilations,
        groups=groups,
    )


def _width(net: Net) -> int:
    return pick(net, (1, 2, 3, 3, 4, 5, 6, 7, 9, 13))


def _pads(
    net: Net, size: Pair, window: Pair, strides: Pair, dilations: Pair
) -> tuple[int, int, int, int] | None:
    """SAME, or anything up to the kernel's reach; None if the kernel does not fit then."""
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    if net.random.random() < 0.5:
        return same_pads(size, (reach[0], reach[1]), strides)
    top, left, bottom, right = (int(net.random.integers(0, reach[side % 2])) for side in range(4))
    fits = size[0] + top + bottom >= reach[0] and size[1] + left + right >= reach[1]
    return (top, left, bottom, right) if fits else None


def _channels(net: Net, inputs: int) -> tuple[int, int]:
    """Output channels (0: depthwise) and groups."""
    kind = net.random.random()
    divisors = [n for n in range(2, inputs) if inputs % n == 0]
    if kind < 0.35:
        return 0, 1
    if kind < 0.5 and divisors:
        groups = pick(net, divisors)
        return groups * pick(net, (1, 2, 3, 4)), groups
    return pick(net, (1, 2, 3, 4, 7, 8, 13, 16, 24, 29, 48)), 1


def random_pool(seed: int) -> Graph:
    """One or two pools, behind a convolution or the input."""
    net = Net(seed, (Numerics.LITERT, Numerics.QDQ)[seed % 2])
    size = pick(net, (1, 2, 3, 5, 7, 9, 11, 14, 17)), pick(net, (1, 2, 3, 4, 5, 7, 9, 11, 14, 40))
    x = net.input((1, *size, pick(net, (1, 2, 3, 5, 7, 8, 13, 16, 24, 31))), (0.02, -7))
    if net.random.random() < 0.4:
        x = net.conv(x, pick(net, (4, 7, 8, 24)), pick(net, ((3, 3), (1, 1))))
    for _ in range(1 if net.random.random() < 0.6 else 2):
        x = _random_pool(net, x, seed)
    return net.graph()


def _random_pool(net: Net, x: str, seed: int) -> str:
    _, *size, _ = net.shape(x)
    lengths = (1, 2, 3, 4, 5, 7, 9, 13)
    for _ in range(_TRIES):
        window = pick(net, lengths), pick(net, lengths)
        strides = pick(net, (1, 1, 2, 3, 4, 5, 9)), pick(net, (1, 1, 2, 3, 4, 5, 9))
        pads = _pads(net, (size[0], size[1]), window, strides, (1, 1))
        if pads is not None:
            break
    else:
        return net.max_pool(x, (1, 1), (1, 1))
    if net.random.random() < 0.55:
        return net.max_pool(x, window, strides, pads)
    # LiteRT's pools keep the scale.
    rescaled = seed % 2 == 1 and net.random.random() < 0.5
    return net.average_pool(x, window, strides, pads, (0.03, 3) if rescaled else None)


def pick(net: Net, values: Sequence[T]) -> T:
    return values[int(net.random.integers(len(values)))]
