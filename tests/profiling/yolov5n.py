"""YOLOv5n for pictures of 224 x 224 and one class, as TFLite exporters write it: the network that
the vendor's profiling page shows (inputs, outputs, bytes of flash and its last layer agree)."""

from __future__ import annotations

import numpy as np

from edits.channel_case import SCALE, Data, LiteNet, Shape, constants

SILU_ZERO = -120
SIGMOID_SCALE = 1 / 256
OUTPUT_SCALE = 0.0077
VALUES = 6  # of a box: place, size, confidence, one class
ANCHORS = 3


class Yolo(LiteNet):
    """What the network needs beyond the layers of a small one."""

    def quantized(self, kind: str, inputs: list[int], shape: Shape, to: tuple[float, int]) -> Data:
        scale, zero = to
        name = f"t{len(self.writer.tensors)}"
        made = self.writer.tensor(name, shape, scale=scale, zero_point=zero)
        self.writer.op(kind, inputs, [made])
        return Data(made, shape, zero)

    def silu(self, x: Data) -> Data:
        gate = self.quantized("LOGISTIC", [x.id], x.shape, (SIGMOID_SCALE, -128))
        return self.quantized("MUL", [x.id, gate.id], x.shape, (SCALE, SILU_ZERO))

    def add(self, a: Data, b: Data) -> Data:
        """Quantized as what it is joined with: SiLU leaves small negative numbers."""
        return self._op("ADD", [a.id, b.id], a.shape, SILU_ZERO)

    def layer(self, x: Data, outputs: int, kernel: int = 1, stride: int = 1) -> Data:
        """A convolution with SiLU. Where a picture shrinks, padding is an op of its own."""
        if stride == 1:
            return self.silu(self.conv(x, outputs, kernel, zero_point=5))
        return self.silu(self.strided(x, outputs, kernel))

    def strided(self, x: Data, outputs: int, kernel: int) -> Data:
        pad = (kernel - 1) // 2
        rows = np.array([[0, 0], [pad, pad], [pad, pad], [0, 0]], np.int32)
        borders = self.writer.constant(f"borders{len(self.writer.tensors)}", rows)
        size = x.shape[1] + 2 * pad
        wide = self._op("PAD", [x.id, borders], (1, size, size, x.channels), x.zero_point)
        kernels = constants(self.random, (outputs, kernel, kernel, x.channels))
        half = x.shape[1] // 2
        inputs = [wide.id, *self._stored(kernels.weights, kernels)]
        options = {"strideH": 2, "strideW": 2, "padding": 1}
        return self._op("CONV_2D", inputs, (1, half, half, outputs), 5, **options)

    def stage(self, x: Data, outputs: int, repeats: int, shortcut: bool = True) -> Data:
        """Two branches, one of them with `repeats` bottlenecks, joined by a last layer."""
        left, right = self.layer(x, outputs // 2), self.layer(x, outputs // 2)
        for _ in range(repeats):
            inner = self.layer(self.layer(left, outputs // 2), outputs // 2, 3)
            left = self.add(left, inner) if shortcut else inner
        return self.layer(self.concat(left, right), outputs)

    def pools(self, x: Data, outputs: int) -> Data:
        """Pools of 5 x 5, one behind the other, joined."""
        found = [self.layer(x, outputs // 2)]
        size = {"strideH": 1, "strideW": 1, "filterHeight": 5, "filterWidth": 5, "padding": 0}
        for _ in range(3):
            last = found[-1]
            found.append(self._op("MAX_POOL_2D", [last.id], last.shape, last.zero_point, **size))
        return self.layer(self.concat(*found), outputs)

    def twice(self, x: Data) -> Data:
        height = 2 * x.shape[1]
        shape = (1, height, height, x.channels)
        inputs = [x.id, self._numbers(height, height)]
        return self._op("RESIZE_NEAREST_NEIGHBOR", inputs, shape, x.zero_point)

    def last_layer(self, x: Data) -> Data:
        raw = self.conv(x, ANCHORS * VALUES, zero_point=5)
        gate = self.quantized("LOGISTIC", [raw.id], raw.shape, (SIGMOID_SCALE, -128))
        return self.quantized("QUANTIZE", [gate.id], raw.shape, (OUTPUT_SCALE, -125))

    def boxes(self, x: Data) -> Data:
        """The last layer of a scale, and its boxes as rows."""
        cells, to = x.shape[1] ** 2, (OUTPUT_SCALE, -125)
        same = self.last_layer(x)
        shape = (1, cells, ANCHORS, VALUES)
        y = self.quantized("RESHAPE", [same.id, self._numbers(*shape)], shape, to)
        place, size, rest = (self.part(y, *bounds) for bounds in ((0, 2), (2, 4), (4, VALUES)))
        place = self.scaled(self.scaled(place, ()), (1, cells, 1, 2), "ADD")
        place = self.scaled(self.scaled(place, ()), (1, 2))
        square = self._op("MUL", [size.id, size.id], size.shape, 3)
        size = self.scaled(self.scaled(square, (1, 1, ANCHORS, 2)), (1, 2))
        parts = [part.id for part in (place, size, rest)]
        whole = self._op("CONCATENATION", parts, shape, place.zero_point, axis=3)
        rows = (1, cells * ANCHORS, VALUES)
        return self._op("RESHAPE", [whole.id, self._numbers(*rows)], rows, place.zero_point)

    def scaled(self, x: Data, shape: Shape, kind: str = "MUL") -> Data:
        """With a constant of that shape."""
        values = np.asarray(self.random.integers(1, 100, shape, np.int8))
        held = self.writer.constant(f"c{len(self.writer.tensors)}", values, scale=0.01)
        return self._op(kind, [x.id, held], x.shape, 3)


def block_186() -> bytes:
    """The last layer of the coarsest scale alone: the epoch that the page prints."""
    net = Yolo()
    return net.finish(net.last_layer(net.input((1, 7, 7, 256), SILU_ZERO)))


def yolov5n() -> bytes:
    net = Yolo()
    picture = net.writer.tensor("picture", (1, 224, 224, 3), "uint8", scale=1 / 255, zero_point=0)
    net.inputs.append(picture)
    x = net.quantized("QUANTIZE", [picture], (1, 224, 224, 3), (1 / 255, -128))
    x = net.stage(net.layer(net.layer(x, 16, 6, 2), 32, 3, 2), 32, 1)
    fine = net.stage(net.layer(x, 64, 3, 2), 64, 2)
    middle = net.stage(net.layer(fine, 128, 3, 2), 128, 3)
    x = net.stage(net.layer(middle, 256, 3, 2), 256, 1)
    top = net.layer(net.pools(x, 256), 128)
    x = net.stage(net.concat(net.twice(top), middle), 128, 1, shortcut=False)
    below = net.layer(x, 64)
    small = net.stage(net.concat(net.twice(below), fine), 64, 1, shortcut=False)
    x = net.concat(net.layer(small, 64, 3, 2), below)
    medium = net.stage(x, 128, 1, shortcut=False)
    x = net.concat(net.layer(medium, 128, 3, 2), top)
    large = net.stage(x, 256, 1, shortcut=False)
    rows = [net.boxes(scale) for scale in (small, medium, large)]
    shape = (1, sum(part.shape[1] for part in rows), VALUES)
    joined = net._op("CONCATENATION", [part.id for part in rows], shape, 3, axis=1)
    made = net.writer.tensor("boxes", shape, "uint8", scale=OUTPUT_SCALE, zero_point=3)
    net.writer.op("QUANTIZE", [joined.id], [made])
    return net.writer.finish(net.inputs, [made])
