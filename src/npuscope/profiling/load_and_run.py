"""Load an image on the emulated board and run it: what the vendor's load-and-run does on a desk."""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
from msgspec import Struct

from npuscope.boards.device import (
    NOTHING,
    DeviceInfo,
    Inference,
    NetworkDesc,
    NodeCounters,
    Request,
)
from npuscope.boards.emulated.board import EmulatedBoard
from npuscope.boards.emulated.boot import Mode, Placed, load
from npuscope.boards.emulated.memory import FLASH_BYTES
from npuscope.boards.emulated.system import CYCLES_PER_INSTRUCTION
from npuscope.bounded_file import LOADABLE, PROGRAM, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.loadable.build import package
from npuscope.loadable.codes import PackageOptions, cpu_name
from npuscope.loadable.image import read_image
from npuscope.loadable.image_model import Image
from npuscope.loadable.layout import Header
from npuscope.machine.load import load_machine
from npuscope.machine.model import Clocks
from npuscope.options.rows import DEFAULT_ADDRESS
from npuscope.profiling.measure import random_inputs
from npuscope.profiling.model import Profile
from npuscope.program.model import EpochKind
from npuscope.program.network_c.layout import dialect
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.text import safe_terminal

# --- What to run: an image with its parameters, or a build to package ---

_LOG = logging.getLogger(__name__)
DEFAULT_IMAGE = "build/network_rel.bin"
MODES = ("copy", "xip", "no-flash", "no-run", "max-speed")
_CPU = "cortex-m33"  # of the emulated board


def parse_modes(text: str) -> set[str]:
    words = {word.strip() for word in text.split(",") if word.strip()}
    unknown = sorted(words - set(MODES))
    if unknown:
        raise UsageError(
            f"unknown mode '{safe_terminal(unknown[0])}'",
            where="--mode",
            hint=f"known: {', '.join(MODES)}",
        )
    if {"copy", "xip"} <= words:
        raise UsageError("an image is copied or executed in place, not both", where="--mode")
    return words


def parse_addresses(text: str) -> tuple[int, int]:
    parts = [part.strip() for part in text.split(",")]
    defaults = DEFAULT_ADDRESS.split(",")
    try:
        addresses = [int(part, 0) for part in (*parts, *defaults[len(parts) :])]
    except ValueError:
        addresses = []
    if len(addresses) != 2 or not all(0 <= value < 1 << 32 for value in addresses):
        raise UsageError(
            f"expected NET[,PARAMS], found '{safe_terminal(text)}'",
            where="--address",
            hint=f"such as {DEFAULT_ADDRESS}",
        )
    return addresses[0], addresses[1]


_BUILD_FILES = ("network.c", "program.json")


def place(source: Path, modes: set[str], addresses: tuple[int, int]) -> Placed:
    image, params = open_image(source)
    mode = (Mode.XIP if "xip" in modes else Mode.COPY) | Mode.CLEAR
    return Placed(image, params, *addresses, mode)


def open_image(source: Path) -> tuple[bytes, bytes | None]:
    """An image with its parameters beside it, or a build (its folder or network.c), packaged for
    the board."""
    if source.is_dir() or source.suffix == ".c":
        (image, *_) = package(source, PackageOptions(cpu=_CPU)).files.values()
        return image, None
    image, beside = _bytes(source), parameters_beside(source)
    # Beside a whole image the file is an older one.
    is_split = len(image) >= Header.BYTES and not Header.unpack(image).params_offset
    return image, _bytes(beside) if is_split and beside.is_file() else None


def image_in(source: Path) -> Path:
    """The image of a folder that `package` wrote; a build and an image stand for themselves."""
    if not source.is_dir() or any((source / name).is_file() for name in _BUILD_FILES):
        return source
    images = sorted(path for path in source.glob("*_rel.bin") if path.is_file())
    if len(images) > 1:
        names = ", ".join(safe_terminal(path.name) for path in images)
        hint = f"name one of them: {names}"
        raise FileError(f"holds {len(images)} images", where=safe_terminal(str(source)), hint=hint)
    return images[0] if images else source


def parameters_beside(source: Path) -> Path:
    return source.with_name(f"{source.stem}_params{source.suffix}")


def program_of(source: Path, image: bytes) -> Path | None:
    """What `estimate` takes for the network of an image: the build that was packaged, or the
    program that `package` writes beside the image, if it is of this very image."""
    if source.is_dir() or source.suffix == ".c":
        return source
    beside = source.with_name(f"{source.stem}.program.json")
    if not beside.is_file():
        return None
    try:
        record = orjson.loads(read_bytes(beside, PROGRAM))
    except orjson.JSONDecodeError:
        return None
    stated = record.get("image_sha256") if isinstance(record, dict) else None
    return beside if stated == hashlib.sha256(image).hexdigest() else None


def _bytes(path: Path) -> bytes:
    hint = "`npuscope package DIR` makes it"
    data = read_bytes(path, LOADABLE, hint=hint)
    if len(data) > FLASH_BYTES:
        raise FileError(
            f"has {len(data):,} bytes, more than the {FLASH_BYTES:,} of the board's flash",
            where=safe_terminal(str(path)),
        )
    return data


@contextmanager
def named(source: Path) -> Iterator[None]:
    """Errors in a file carry the file's name."""
    try:
        yield
    except FileError as error:
        name = safe_terminal(str(source))
        where = f"{name}, {error.where}" if error.where else name
        raise FileError(error.message, where=where, hint=error.hint) from None


# The last of their dialects.
_RUNTIME_OF_20, _RUNTIME_OF_21, _OLD_RUNTIME = (1, 0, 255), (1, 1, 0), (1, 1, 2)
_LAST_OF_30 = 8  # build of 1.1.3 up to which functions have the old form


# Serial line of the validation application: usual, and with `max-speed`.
_BAUD, _FAST_BAUD = 921_600, 5_529_600
_BITS_A_BYTE = 10  # with start and stop bit
_PACKET = 34 / 32  # packets of 32 bytes with a header of two


class LineTime(Struct, frozen=True):
    """What the serial line of a board would add to an inference whose values pass over it."""

    baud: int
    bytes: int

    @property
    def ms(self) -> float:
        return self.bytes * _PACKET * _BITS_A_BYTE / self.baud * 1e3

    @property
    def told(self) -> str:
        return f"{self.bytes:,} bytes in and out, {self.ms:.1f} ms at {self.baud:,} baud"


class LoadAndRun(ShownRecord, frozen=True):
    """The image, the board it ran on, and its inferences.

    The emulated processor executes other code than a board's (no vectors, our own kernels): what it
    did is counted in instructions. What an inference takes is the `prediction`, as `estimate` gives
    it for the same build; None where only the image is there.
    """

    image: Image
    placed: Placed
    info: DeviceInfo
    network: NetworkDesc
    inferences: tuple[Inference, ...]
    fast_line: bool = False
    prediction: Profile | None = None

    @property
    def line(self) -> LineTime:
        tensors = (*self.network.inputs, *self.network.outputs)
        baud = _FAST_BAUD if self.fast_line else _BAUD
        return LineTime(baud, sum(tensor.size_bytes for tensor in tensors))

    @property
    def phases(self) -> tuple[float, float, float]:
        """MCU cycles before, during and after the epochs: the mean of the inferences."""
        rows = [inference.mcu_cycles for inference in self.inferences]
        pre, core, post = (float(value) for value in np.mean(rows, axis=0))
        return pre, core, post

    @property
    def total_ms(self) -> float | None:
        """Predicted for a board."""
        profile = self.prediction
        return profile.total_ms if profile and not profile.is_mostly_unknown else None

    @property
    def npu_ms(self) -> float:
        """The NPU at work, in one inference: the mean."""
        return float(np.mean([sum(map(self.npu_ms_of, run.nodes)) for run in self.inferences]))

    @property
    def instructions(self) -> int:
        """Executed by the processor in one inference, the mean; a wait for flash counts as
        instructions."""
        runs = (sum(map(self.instructions_of, run.nodes)) for run in self.inferences)
        return round(np.mean(list(runs)))

    def npu_ms_of(self, node: NodeCounters) -> float:
        core = 0 if node.kind is EpochKind.SW else node.mcu_cycles[1]
        return core / self.info.clocks.mcu_hz * 1e3

    def instructions_of(self, node: NodeCounters) -> int:
        pre, core, post = node.mcu_cycles
        cycles = pre + post + (core if node.kind is EpochKind.SW else 0)
        return round(cycles / CYCLES_PER_INSTRUCTION)

    def told(self) -> str:
        if not self.inferences:
            return f"{self.network.name} loaded, not run"
        times = counted(len(self.inferences), "inference")
        total = "" if self.total_ms is None else f", predicted total {self.total_ms:.3f} ms"
        return f"{self.network.name}: NPU {self.npu_ms:.3f} ms{total}, {times}"

    def table(self) -> Rows:
        """One row per inference."""
        names = ("pre_mcu_cycles", "core_mcu_cycles", "post_mcu_cycles")
        return [dict(zip(names, one.mcu_cycles, strict=True)) for one in self.inferences]


def dialect_of(image: Image) -> int:
    return dialect(generation_of(image)).number


def generation_of(image: Image) -> str:
    """By the version of the runtime: 3.0 and 4.0 share three numbers, not the build."""
    context = image.context
    if context.version <= _OLD_RUNTIME:
        last_of = {"2.0": _RUNTIME_OF_20, "2.1": _RUNTIME_OF_21}
        return next((name for name, last in last_of.items() if context.version <= last), "2.2")
    return "3.0" if context.rt_version_extra <= _LAST_OF_30 else "4.0"


def load_and_run(
    placed: Placed,
    clocks: Clocks,
    *,
    generation: str = "",
    batch: int = 1,
    inputs: Sequence[np.ndarray] | None = None,
    fast_line: bool = False,
) -> LoadAndRun:
    """Start the board with one image and run it; no inference at all where `batch` is 0."""
    image = read_image(placed.image, placed.params)
    generation_name = load_machine(generation=generation or generation_of(image)).generation.name
    world = "secure" if image.flags.secure else "non-secure"
    target = (cpu_name(image.flags.cpu), world, image.runtime, image.size_bytes)
    _LOG.debug("image: %s, %s, runtime %s, %d bytes", *target)
    for pool in image.pools:
        row = (pool.name, pool.flags.text, pool.descriptor.dst, pool.descriptor.size)
        _LOG.debug("pool %s: %s, dst %#010x, %d bytes", *row)
    _LOG.debug("flash: %#010x, mode %s", placed.address, placed.mode.name)
    loaded = load([placed], generation_name, clocks, dialect=dialect_of(image))
    loaded.require_all()
    board = loaded.board
    try:
        info = board.info()
        network = info.networks[0]
        _LOG.debug("board: %s, %s", info.description, ",".join(info.attributes))
        request = Request(network.name, _inputs(network, inputs), per_layer=True, options=NOTHING)
        inferences = tuple(_inference(board, request, number) for number in range(batch))
    finally:
        board.close()
    return LoadAndRun(image, placed, info, network, inferences, fast_line)


def _inference(board: EmulatedBoard, request: Request, number: int) -> Inference:
    inference = board.run(request)
    for node in inference.nodes:
        cycles = " ".join(map(str, node.mcu_cycles))
        _LOG.debug("inference %d: %s (%s) [%s]", number + 1, node.name, node.kind.value, cycles)
    network = next(row for row in board.info().networks if row.name == request.network)
    for desc, values in zip(network.outputs, inference.outputs, strict=True):
        checksum = zlib.crc32(np.ascontiguousarray(values).tobytes())
        row = (number + 1, desc.name, desc.dtype, list(desc.shape), checksum)
        _LOG.debug("inference %d: output '%s' %s%s, CRC-32 %#010x", *row)
    return inference


def _inputs(network: NetworkDesc, arrays: Sequence[np.ndarray] | None) -> tuple[np.ndarray, ...]:
    if arrays is None:
        return random_inputs(network)
    if len(arrays) != len(network.inputs):
        raise UsageError(f"{len(arrays)} inputs given, the network has {len(network.inputs)}")
    return tuple(arrays)
