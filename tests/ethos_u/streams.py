"""Small command streams, weights and files of Vela's form, built in code."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.families.ethos_u.commands import U55, U85, Encoding
from npuscope.families.ethos_u.stream import (
    CommandStream,
    NpuCommand,
    NpuConfiguration,
    build_stream,
    command,
    encode_commands,
)

U55_128 = NpuConfiguration(0x00001807, 0x10066001)
U65_512 = NpuConfiguration(0x10006009, 0x10066001)
U85_256 = NpuConfiguration(0x20000118, 0x20007000)


def encoding_of(configuration: NpuConfiguration) -> Encoding:
    return U85 if configuration is U85_256 else U55


class Builder:
    """Commands by their short names: `set("IFM_REGION", region=1)`, `op("CONV")`."""

    def __init__(self, configuration: NpuConfiguration = U55_128) -> None:
        self.configuration = configuration
        self.encoding = encoding_of(configuration)
        self.commands: list[NpuCommand] = []

    def set(self, name: str, **fields: int) -> Builder:
        self.commands.append(command(self.encoding, f"NPU_SET_{name}", **fields))
        return self

    def op(self, name: str, **fields: int) -> Builder:
        self.commands.append(command(self.encoding, f"NPU_OP_{name}", **fields))
        return self

    def image(self, name: str, shape: tuple[int, int, int], region: int, base: int) -> Builder:
        """An int8 feature map, channels last."""
        height, width, channels = shape
        self.set(f"{name}_REGION", region=region).set(f"{name}_BASE0", address=base)
        self.set(f"{name}_HEIGHT0_M1", value=height - 1).set(f"{name}_WIDTH0_M1", value=width - 1)
        self.set(f"{name}_HEIGHT1_M1", value=height - 1)
        self.set(f"{name}_STRIDE_Y", address=width * channels)
        self.set(f"{name}_STRIDE_X", address=channels).set(f"{name}_STRIDE_C", address=1)
        if name == "OFM":
            self.set("OFM_HEIGHT_M1", value=height - 1).set("OFM_WIDTH_M1", value=width - 1)
            self.set("OFM_DEPTH_M1", value=channels - 1)
            self.set("OFM_BLK_DEPTH_M1", value=7)
            self.set("ACTIVATION_MIN", bound=-128).set("ACTIVATION_MAX", bound=127)
        elif name == "IFM":
            self.set("IFM_DEPTH_M1", value=channels - 1)
        self.set(f"{name}_PRECISION", type=1)
        return self

    def stream(self) -> CommandStream:
        return build_stream(self.configuration, encode_commands(self.commands))


# --- Weights ---


class BitWriter:
    def __init__(self) -> None:
        self.bits: list[int] = []

    def put(self, value: int, width: int) -> None:
        self.bits += [value >> place & 1 for place in range(width)]

    def bytes(self) -> bytes:
        return np.packbits(np.array(self.bits, np.uint8), bitorder="little").tobytes()


def plain_weights(values: np.ndarray) -> bytes:
    """Weights that are not compressed: 9 bits each, 8 to a chunk."""
    bits = BitWriter()
    for first in range(0, len(values), 1 << 15):
        part = values[first : first + (1 << 15)]
        _head(bits, len(part), runs=6, divisor=7)
        for value in part.tolist():
            bits.put(abs(value) << 1 | (value < 0), 9)
    bits.put(7, 3)
    return bits.bytes()


def _head(bits: BitWriter, count: int, runs: int, divisor: int) -> None:
    bits.put(runs, 3)
    bits.put(count - 1, 15)
    bits.put(divisor, 3)
    bits.put(0, 1)
    bits.put(1, 1)
    bits.put(0, 5)  # direct offset
    bits.put(0, 5)  # no palette
    bits.put(7, 3)  # 9 bits


def compressed_weights(values: np.ndarray, divisor: int = 2, run_divisor: int = 1) -> bytes:
    """Golomb-Rice codes with runs of zeros in between: the encoder of the simplest slice."""
    weights, runs = [], [0]
    for value in values.tolist():
        if value:
            weights.append(abs(value) << 1 | (value < 0))
            runs.append(0)
        else:
            runs[-1] += 1
    bits = BitWriter()
    _head(bits, len(weights), run_divisor, divisor)
    weight_chunks = _weight_chunks(weights, divisor)
    run_chunks = _run_chunks(runs, run_divisor)
    _interleave(bits, (len(weights), weight_chunks, divisor), (len(runs), run_chunks, run_divisor))
    bits.put(7, 3)
    return bits.bytes()


def _weight_chunks(numbers: list[int], divisor: int) -> list[tuple[list[int], list[int]]]:
    """Steps of 0 to 2 that add up to quotients, 12 to a chunk, and the remainders of each."""
    steps: list[tuple[int, int | None]] = []
    for number in numbers:
        quotient = number >> divisor
        steps += [(2, None)] * (quotient // 2)
        steps.append((quotient % 2, number & (1 << divisor) - 1))
    return _chunks(steps, 12)


def _run_chunks(numbers: list[int], divisor: int) -> list[tuple[list[int], list[int]]]:
    steps: list[tuple[int, int | None]] = []
    for number in numbers:
        steps += [(1, None)] * (number >> divisor)
        steps.append((0, number & (1 << divisor) - 1))
    return _chunks(steps, 8 if divisor == 3 else 12)


def _chunks(steps: list[tuple[int, int | None]], size: int) -> list[tuple[list[int], list[int]]]:
    steps = steps + [(0, None)] * (-len(steps) % size)
    parts = [steps[first : first + size] for first in range(0, len(steps), size)]
    return [
        ([step for step, _ in part], [rest for _, rest in part if rest is not None])
        for part in parts
    ]


def _interleave(bits: BitWriter, weights: tuple[int, Any, int], runs: tuple[int, Any, int]) -> None:
    """The order of the decoder: it takes weights while they are at most 8 ahead."""
    places, done = [0, 0], [0, 0]
    tracks = (weights, runs)
    before: list[list[int] | None] = [None, None]
    while True:
        ahead = done[0] - done[1]
        takes = (ahead < 8 and done[0] < weights[0], ahead >= 0 and done[1] < runs[0])
        now: list[list[int] | None] = [None, None]
        second: list[int] = []
        for track in (0, 1):
            if not takes[track]:
                continue
            steps, rests = tracks[track][1][places[track]]
            places[track] += 1
            now[track] = rests
            bits.bits += [min(step, 1) for step in steps]
            if track == 0:
                second = [step - 1 for step in steps if step]
                done[0] += sum(step < 2 for step in steps)
            else:
                done[1] += sum(step == 0 for step in steps)
        bits.bits += second
        for track in (0, 1):
            for rest in before[track] or ():
                bits.put(rest, tracks[track][2])
        before = now
        if not any(takes):
            return


def scale_records(bias: np.ndarray, scale: np.ndarray, shift: np.ndarray, u85: bool) -> bytes:
    rows = []
    for b, factor, s in zip(bias.tolist(), scale.tolist(), shift.tolist(), strict=True):
        if u85:
            row = b.to_bytes(4, "little", signed=True) + factor.to_bytes(4, "little")
            rows.append(row + bytes((s, 0)))
        else:
            row = b.to_bytes(5, "little", signed=True) + factor.to_bytes(4, "little")
            rows.append(row + bytes((s,)))
    return b"".join(rows)
