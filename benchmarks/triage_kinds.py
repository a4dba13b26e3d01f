"""25 kinds of faults for the judge of `triage`, written on the hooks of the board alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from triage_board import Board, Bytes, Kind, Ram

Random = np.random.Generator
LINE = 32
Install = Callable[[Board, Random], str]
KINDS: list[Kind] = []


def kind(name: str, where: str, *causes: str) -> Callable[[Install], Install]:
    def register(install: Install) -> Install:
        KINDS.append(Kind(name, where, install, causes))
        return install

    return register


def pixels(board: Board, name: str, data: Bytes) -> np.ndarray | None:
    """The input as (N, H, W, C), where it is channel-last in memory."""
    shape = board.shape(name)
    if len(shape) != 4 or 1 in shape[1:3] or board.buffer(name).batch not in (0, shape[-1]):
        return None
    return data.view(board.dtype(name)).reshape(shape)


def flat(values: np.ndarray) -> Bytes:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def last_lines(board: Board, name: str, size: int, count: int) -> int:
    """Where the last lines of a buffer begin: lines of a cache are by address."""
    base = board.address(name)
    end = -(-(base + size) // LINE) * LINE
    return max(0, end - count * LINE - base)


# --- Weights ---


@kind("weights never loaded", "weights", "weights-zero")
def zero(board: Board, random: Random) -> str:
    board.flash = lambda pool, image: np.zeros_like(image)
    return "0x00"


@kind("flash erased", "weights", "weights-erased")
def erased(board: Board, random: Random) -> str:
    board.flash = lambda pool, image: np.full_like(image, 0xFF)
    return "0xFF"


@kind("weights beside their address", "weights", "weights-shifted")
def shifted(board: Board, random: Random) -> str:
    smallest = min(board.image(pool).size for pool in board.pools)
    count = 16 * int(random.integers(1, max(2, min(256, smallest // 16))))

    def change(pool: str, image: Bytes) -> Bytes:
        return np.concatenate([image[count:], np.full(count, 0xFF, np.uint8)])

    board.flash = change
    return f"{count} bytes"


@kind("sector lost", "weights", "weights-part-lost", "weights-erased")
def sector(board: Board, random: Random) -> str:
    sizes = {pool: board.image(pool).size for pool in board.pools}
    pool = max(sizes, key=lambda name: sizes[name])
    step = 4096 if sizes[pool] <= 48 * 4096 else 0x10000
    start = int(random.integers(0, max(1, -(-sizes[pool] // step)))) * step

    def change(name: str, image: Bytes) -> Bytes:
        if name == pool:
            image[start : start + step] = 0xFF
        return image

    board.flash = change
    return f"{step} bytes at {start:#x}"


@kind("weights of the build before", "weights", "weights-other-build")
def other_weights(board: Board, random: Random) -> str:
    def change(pool: str, image: Bytes) -> Bytes:
        theirs = board.other_image(pool)
        result = np.full_like(image, 0xFF)
        count = min(image.size, theirs.size)
        result[:count] = theirs[:count]
        return result

    board.flash = change
    return "other build"


@kind("NPU not allowed to read flash", "weights", "weights-blocked")
def no_flash(board: Board, random: Random) -> str:
    board.flash_read = lambda pool, image: np.zeros_like(image)
    return "NPU reads 0"


# --- Inputs ---


@kind("channels first", "input", "input-layout")
def planes(board: Board, random: Random) -> str:
    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        values = pixels(board, name, frame)
        return frame if values is None else flat(values.transpose(0, 3, 1, 2))

    board.supply = supply
    return "CHW"


@kind("blue and red", "input", "input-bgr")
def bgr(board: Board, random: Random) -> str:
    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        values = pixels(board, name, frame)
        return frame if values is None else flat(values[:, :, :, ::-1])

    board.supply = supply
    return "BGR"


@kind("picture mirrored or upside down", "input", "input-turned")
def turned(board: Board, random: Random) -> str:
    how = str(random.choice(["left-right", "up-down", "180", "transposed"]))

    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        values = pixels(board, name, frame)
        if values is None:
            return frame
        if how == "transposed":
            return flat(values.transpose(0, 2, 1, 3))
        rows = -1 if how in ("up-down", "180") else 1
        columns = -1 if how in ("left-right", "180") else 1
        return flat(values[:, ::rows, ::columns])

    board.supply = supply
    return how


@kind("row pitch", "input", "input-pitch")
def pitch(board: Board, random: Random) -> str:
    unit = int(random.choice([16, 32, 64, 128]))

    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        values = pixels(board, name, frame)
        if values is None:
            return frame
        rows = frame.reshape(values.shape[1], -1)
        pad = -rows.shape[1] % unit
        return np.pad(rows, ((0, 0), (0, pad))).reshape(-1)[: frame.size].copy()

    board.supply = supply
    return f"{unit} bytes"


@kind("unsigned pixels", "input", "input-signed")
def unsigned(board: Board, random: Random) -> str:
    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        return frame ^ 0x80 if board.dtype(name).itemsize == 1 else frame

    board.supply = supply
    return "xor 0x80"


@kind("zero point forgotten", "input", "input-scale")
def no_zero_point(board: Board, random: Random) -> str:
    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        quant, dtype = board.buffer(name).quant, board.dtype(name)
        if quant is None or dtype.kind == "f":
            return frame
        limits = np.iinfo(dtype)
        values = frame.view(dtype).astype(int) - quant.zero_point
        return flat(values.clip(limits.min, limits.max).astype(dtype))

    board.supply = supply
    return "q - zero point"


@kind("front end never ran", "input", "input-constant")
def constant(board: Board, random: Random) -> str:
    board.supply = lambda name, frame, before, ram: np.zeros_like(frame)
    return "zeros"


@kind("last lines of the input in the cache", "input", "input-stale-cache")
def stale_input(board: Board, random: Random) -> str:
    share = float(random.uniform(0.02, 1.0))

    def fetch(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        lines = max(1, int(min(frame.size, 32768) / LINE * share))
        start = last_lines(board, name, frame.size, lines)
        return np.concatenate([frame[:start], before[start:]])

    board.fetch = fetch
    return f"{share:.2f} of 32 KiB"


@kind("frame before", "input", "input-late")
def late_frame(board: Board, random: Random) -> str:
    board.supply = lambda name, frame, before, ram: before
    return "k - 1"


@kind("torn frame", "input", "input-torn")
def torn(board: Board, random: Random) -> str:
    share = float(random.uniform(0.1, 0.9))

    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        values = pixels(board, name, frame)
        if values is None:
            return frame
        rows = frame.size // values.shape[1]
        cut = max(1, int(values.shape[1] * share)) * rows
        return np.concatenate([frame[:cut], before[cut:]])

    board.supply = supply
    return f"from {share:.2f} on"


@kind("YUV taken for RGB", "input", "input-format")
def yuv(board: Board, random: Random) -> str:
    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        values = pixels(board, name, frame)
        if values is None or values.shape[-1] != 3 or values.dtype.itemsize != 1:
            return frame
        flip = 128 if values.dtype == np.int8 else 0
        r, g, b = np.moveaxis((values.view(np.uint8) ^ flip).astype(int), -1, 0)
        y = ((66 * r + 129 * g + 25 * b + 128) // 256 + 16).clip(0, 255)
        u = ((-38 * r - 74 * g + 112 * b + 128) // 256 + 128).clip(0, 255)
        v = ((112 * r - 94 * g - 18 * b + 128) // 256 + 128).clip(0, 255)
        return flat(np.stack([y, u, v], -1).astype(np.uint8) ^ flip)

    board.supply = supply
    return "Y, U, V"


# --- Memory ---


@kind("RAM bank off", "memory", "bank-off")
def bank_off(board: Board, random: Random) -> str:
    names = sorted({b.pool for b in board.program.buffers if not b.is_param and not b.view_of})
    pool = str(random.choice(names))
    lost = {b.name for b in board.program.buffers if b.pool == pool and not b.is_param}

    def epoch(number: int, written: list[str], ram: Ram) -> None:
        for name in written:
            if name in lost:
                ram.set(name, np.zeros_like(ram.get(name)))

    def supply(name: str, frame: Bytes, before: Bytes, ram: Bytes) -> Bytes:
        return np.zeros_like(frame) if name in lost else frame

    board.epoch, board.supply = epoch, supply
    board.cpu_view = lambda name, values: np.zeros_like(values) if name in lost else values
    return f"{pool} of {len(names)}"


@kind("RAM closed to the NPU", "memory", "bank-closed-to-npu")
def bank_closed(board: Board, random: Random) -> str:
    text = bank_off(board, random)
    pool = text.split()[0]
    lost = {b.name for b in board.program.buffers if b.pool == pool and not b.is_param}
    board.supply = None
    board.bus = lambda name, values: np.zeros_like(values) if name in lost else values
    board.cpu_view = lambda name, values: np.full_like(values, 0x55) if name in lost else values
    return text


@kind("buffer overwritten", "memory", "buffer-overlap")
def overlap(board: Board, random: Random) -> str:
    inner = [
        (epoch.number, name)
        for epoch in board.program.executed
        for name in _written(epoch)
        if name not in board.outputs
    ]
    value = int(random.choice([0, 0xFF]))
    number, victim = inner[int(random.integers(len(inner)))] if inner else (-1, "")

    def epoch(running: int, written: list[str], ram: Ram) -> None:
        if running == number:
            ram.set(victim, np.full_like(ram.get(victim), value))

    board.epoch = epoch
    return f"{victim} behind {number} with {value:#x}"


def _written(epoch: object) -> tuple[str, ...]:
    from npuscope.sim.run import written

    return written(epoch)  # type: ignore[arg-type]


# --- Outputs ---


@kind("result of the run before", "output", "output-late")
def late_result(board: Board, random: Random) -> str:
    board.settle = lambda name, result, before: before
    return "k - 1"


@kind("output lines in the cache", "output", "output-stale-cache")
def stale_output(board: Board, random: Random) -> str:
    share = float(random.uniform(0.05, 1.0))

    def read(name: str, result: Bytes, before: Bytes) -> Bytes:
        lines = -(-(board.address(name) % LINE + result.size) // LINE)
        start = last_lines(board, name, result.size, max(1, int(lines * share)))
        return np.concatenate([result[:start], before[start:]])

    board.read = read
    return f"{share:.2f} of the lines"


@kind("output read as uint8", "output", "output-signed")
def output_unsigned(board: Board, random: Random) -> str:
    def read(name: str, result: Bytes, before: Bytes) -> Bytes:
        return result ^ 0x80 if board.dtype(name).itemsize == 1 else result

    board.read = read
    return "xor 0x80"


@kind("output read in another order", "output", "output-order")
def output_order(board: Board, random: Random) -> str:
    def read(name: str, result: Bytes, before: Bytes) -> Bytes:
        shape = board.shape(name)
        if len(shape) < 3 or shape[-1] == 1:
            return result
        values = result.view(board.dtype(name)).reshape(shape)
        return flat(np.moveaxis(values, -1, 1))

    board.read = read
    return "channel by channel"


# --- Programme ---


@kind("other network runs", "program", "other-network", "weights-other-build")
def other_network(board: Board, random: Random) -> str:
    board.instead = board.other
    return "the other build"
