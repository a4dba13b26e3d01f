"""Files of Vela's form, built in code: one convolution, or whatever a stream does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ethos_u.streams import (
    U55_128,
    U85_256,
    Builder,
    compressed_weights,
    scale_records,
)
from npuscope.families.ethos_u.stream import CommandStream, NpuConfiguration, stream_bytes
from npuscope.families.ethos_u.weight_order import WeightPlan, order_u55, order_u85

SHAPE_IN, SHAPE_OUT = (6, 5, 8), (6, 5, 12)
SOURCE, TARGET, BUFFER = 0, 512, 1024  # places in the arena
FACTOR, SHIFT = 1_500_000_000, 38


class Convolution:
    """A 3x3 convolution with zero points, biases and a clip, for a machine of either encoding."""

    def __init__(self, configuration: NpuConfiguration, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.configuration = configuration
        self.weights = rng.integers(-90, 91, (12, 3, 3, 8)).astype(np.int16)
        self.bias = rng.integers(-3000, 3000, 12)
        self.u85 = configuration is U85_256
        plan = WeightPlan(self.weights.shape, 8, output_unit=8, input_block=64, macs=256)
        if self.u85:
            plan = WeightPlan(self.weights.shape, 16, output_unit=8, input_block=64, macs=256)
        order = (order_u85 if self.u85 else order_u55)(plan)
        stored = np.append(self.weights.ravel(), 0)[order]
        self.packed = compressed_weights(stored, 4)
        self.packed += b"\xff" * (-len(self.packed) % 16)  # marks of the end
        full = np.full(12, FACTOR), np.full(12, SHIFT)
        self.scales = scale_records(self.bias, *full, self.u85)
        self.scales += bytes(-len(self.scales) % 16)

    @property
    def constants(self) -> np.ndarray:
        return np.frombuffer(self.scales + self.packed, np.uint8)

    def stream(self) -> CommandStream:
        builder = Builder(self.configuration)
        builder.image("IFM", SHAPE_IN, 1, SOURCE).image("OFM", SHAPE_OUT, 1, TARGET)
        builder.set("IFM_ZERO_POINT", zero_point=7).set("OFM_ZERO_POINT", zero_point=-3)
        builder.set("ACTIVATION_MIN", bound=-100)
        for side in ("TOP", "LEFT", "BOTTOM", "RIGHT"):
            builder.set(f"IFM_PAD_{side}", pad=1)
        builder.set("KERNEL_HEIGHT_M1", value=2).set("KERNEL_WIDTH_M1", value=2)
        builder.set("KERNEL_STRIDE").set("WEIGHT_REGION").set("SCALE_REGION")
        builder.set("OFM_BLK_HEIGHT_M1", value=3).set("OFM_BLK_WIDTH_M1", value=3)
        builder.set("SCALE_BASE").set("SCALE_LENGTH", value=len(self.scales))
        builder.set("WEIGHT_BASE", address=len(self.scales))
        builder.set("WEIGHT_LENGTH", value=len(self.packed))
        if self.u85:
            builder.set("ACC_FORMAT", microblock=3).set("OFM_BLK_DEPTH_M1", value=15)
            builder.set("IFM_SCALE").set("IFM2_SCALE").set("OFM_SCALE").set("WEIGHT_FORMAT")
        return builder.op("CONV").op("STOP", mask=0xFFFF).stream()

    def buffered(self) -> CommandStream:
        """The same with weights that are copied to the arena first."""
        commands = self.stream().commands()
        builder = Builder(self.configuration)
        builder.set("DMA0_SRC_REGION").set("DMA0_SRC", address=len(self.scales))
        builder.set("DMA0_DST_REGION", region=1).set("DMA0_DST", address=BUFFER)
        builder.set("DMA0_LEN", address=len(self.packed)).op("DMA_START")
        builder.commands += commands[:-2]
        builder.set("WEIGHT_REGION", region=1).set("WEIGHT_BASE", address=BUFFER)
        builder.op("DMA_WAIT")
        builder.commands += commands[-2:]
        return builder.stream()

    def expected(self, image: np.ndarray) -> np.ndarray:
        """In plain loops."""
        height, width, channels = SHAPE_OUT
        result = np.zeros(SHAPE_OUT, np.int64)
        padded = np.pad(image.astype(np.int64) - 7, ((1, 1), (1, 1), (0, 0)))
        for y, x, o in np.ndindex(height, width, channels):
            total = int((padded[y : y + 3, x : x + 3] * self.weights[o]).sum()) + int(self.bias[o])
            high = (total * FACTOR + (1 << 30)) >> 31
            rest = SHIFT - 31
            half = 1 << rest - 1
            sign = -1 if high < 0 else 1
            result[y, x, o] = sign * ((abs(high) + half) >> rest)
        return (result - 3).clip(-100, 127).astype(np.int8)


def vela_file(
    convolution: Convolution,
    folder: Path,
    stream: CommandStream | None = None,
    name: str = "one_vela.tflite",
) -> Path:
    """With the metadata that give tensors their places, and a Dequantize for the CPU behind."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    from models_tflite import TfliteWriter

    writer = TfliteWriter()
    code = np.frombuffer(stream_bytes(stream or convolution.stream()), np.uint8)
    commands = writer.constant("ethos_u_command_stream", code)
    data = writer.constant("read_only", convolution.constants)
    arena = writer.tensor("scratch", (4096,), "uint8")
    image = writer.tensor("image", (1, *SHAPE_IN), "int8", 0.05, 7)
    result = writer.tensor("result", (1, *SHAPE_OUT), "int8", 0.5, -3)
    real = writer.tensor("real", (1, *SHAPE_OUT), "float32")
    writer.op("CUSTOM:ethos-u", [commands, data, arena, arena, image], [result])
    writer.op("DEQUANTIZE", [result], [real])
    model = schema.ModelT.InitFromPackedBuf(writer.finish([image], [real]), 0)
    places = np.array([1, 0, 6, -1, -1, 0, SOURCE, TARGET, -1], "<i4")
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(places.tobytes(), np.uint8)
    entry.name, entry.buffer = b"OfflineMemoryAllocation", len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [entry]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path = folder / name
    path.write_bytes(bytes(builder.Output()))
    return path


CONFIGURATIONS = (U55_128, U85_256)


def executorch_program(layer: Convolution) -> bytes:
    def block(name: bytes, data: bytes) -> bytes:
        size = len(data).to_bytes(4, "little")
        return name.ljust(16, b"\0") + size + bytes(12) + data + bytes(-len(data) % 16)

    def table(shape: tuple[int, ...], place: int) -> bytes:
        return np.array([1, 1, 1, 1, *shape, 1, place, 1], "<i4").tobytes()

    return (
        b"\0\0\0\0ET12".ljust(112, b"\0")
        + block(b"vela_bin_stream", b"")
        + block(b"cmd_data", stream_bytes(layer.stream()))
        + block(b"weight_data", layer.constants.tobytes())
        + block(b"scratch_size", (1024).to_bytes(4, "little"))
        + block(b"inputs", table(SHAPE_IN, SOURCE))
        + block(b"outputs", table(SHAPE_OUT, TARGET))
        + block(b"vela_end_stream", b"")
    )


def executorch_plan(kernels: list[str], sizes: tuple[int, ...], order: tuple[int, ...]) -> bytes:
    """The flatbuffer of a program: kernels on one tensor, then a delegate that reads it."""
    import flatbuffers

    b = flatbuffers.Builder(1024)

    def table(*fields: tuple[int, str, int]) -> int:
        b.StartObject(12)
        for slot, form, value in fields:
            if form == "table":
                b.PrependUOffsetTRelativeSlot(slot, value, 0)
            else:
                getattr(b, f"Prepend{form}Slot")(slot, value, 0)
        return b.EndObject()

    def tables(offsets: list[int]) -> int:
        b.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            b.PrependUOffsetTRelative(offset)
        return b.EndVector()

    shape = b.CreateNumpyVector(np.array(sizes, np.int32))
    axes = b.CreateNumpyVector(np.array(order, np.uint8))
    tensor = table((2, "table", shape), (3, "table", axes))
    values = tables([table((0, "Uint8", 5), (1, "table", tensor))])
    names = [b.CreateString(name) for name in kernels]
    operators = tables([table((0, "table", name)) for name in names])
    arguments = b.CreateNumpyVector(np.array([0], np.int32))
    calls = [table((0, "Int32", n), (1, "table", arguments)) for n in range(len(kernels))]
    instructions = [table((0, "Uint8", 1), (1, "table", call)) for call in calls]
    call = table((1, "table", arguments))
    instructions.append(table((0, "Uint8", 2), (1, "table", call)))
    chain = table((2, "table", tables(instructions)))
    chains = tables([chain])
    plan = table((2, "table", values), (5, "table", chains), (6, "table", operators))
    b.Finish(table((1, "table", tables([plan]))), b"ET12")
    return bytes(b.Output())
