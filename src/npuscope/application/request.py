"""The application file: networks, work of the processor, buffers and memory. TOML to a frozen
Application."""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import Annotated

from msgspec import Struct, field

from npuscope.application.linker import LinkerLayout, read_linker_file
from npuscope.bounded_file import APPLICATION, read_toml
from npuscope.errors import FileError, NpuscopeError
from npuscope.loadable.boards import boards
from npuscope.loadable.firmware_map import FirmwareRegion
from npuscope.options.rows import DATA_TYPES
from npuscope.plain_data import Range
from npuscope.records import TOML, OneOrMore, decode
from npuscope.text import safe_terminal

_Bytes = Annotated[int, Range(1, 1 << 32)]
_Room = Annotated[int, Range(0, 1 << 32)]
_Count = Annotated[int, Range(1, 1000)]
_Milliseconds = Annotated[float, Range(0.0, 1e6)]
_MOST = 64  # of networks, work or buffers


class WorkUnit(Enum):
    """What work runs on; a network has the NPU, and the CPU for its software epochs."""

    CPU = "CPU"
    GPU2D = "GPU2D"
    DMA = "DMA"
    ENCODER = "ENCODER"


class Home(Enum):
    """Where the input or the output of a network lies."""

    POOL = "pool"  # with its activations
    APPLICATION = "application"  # in a buffer of its own


class WeightsHome(Enum):
    """Whether weights may be copied to RAM on chip when the board starts."""

    ANY = "any"
    FLASH = "flash"


class Kind(Enum):
    """What a memory is to those who want room in it."""

    NPU = "npu"  # banks of the NPU
    CPU = "cpu"  # RAM on chip in front of them
    PSRAM = "psram"
    ANY = "any"
    SRAM = "sram"  # on chip, whichever


class NetworkUse(Struct, frozen=True):
    """A network of the application; `input_from` and `output_until` are steps of the frame."""

    name: str
    model: str = ""
    build: str = ""
    every: _Count = 1  # frames
    when: tuple[str, ...] = ()  # kinds of frames; all of them if empty
    repeat: str = ""  # the loop that it runs in
    deadline_ms: _Milliseconds | None = None
    measured_ms: _Milliseconds | None = None
    weights: WeightsHome = WeightsHome.ANY
    input_data_type: str = ""
    output_data_type: str = ""
    inputs: Home = Home.POOL
    outputs: Home = Home.POOL
    input_buffers: _Count = 1
    input_from: str = ""
    output_until: str = ""
    state_bytes: _Room = 0
    after: OneOrMore[str] = ()


class UserWork(Struct, frozen=True):
    """Work beside the networks; its time is the user's."""

    name: str
    ms: _Milliseconds
    worst_ms: _Milliseconds | None = None
    unit: WorkUnit = WorkUnit.CPU
    every: _Count = 1
    when: tuple[str, ...] = ()
    repeat: str = ""
    psram_bytes: _Room = 0  # moved by one run
    after: OneOrMore[str] = ()


Step = NetworkUse | UserWork


class FrameBuffer(Struct, frozen=True):
    """`count` times `bytes`, or a picture; `hz` is how often a display reads one of them."""

    name: str
    bytes: _Bytes | None = None
    width: Annotated[int, Range(1, 1 << 16)] | None = None
    height: Annotated[int, Range(1, 1 << 16)] | None = None
    bytes_per_pixel: Annotated[int, Range(1, 16)] = 2
    count: _Count = 1
    memory: str = Kind.ANY.value
    address: _Room | None = None
    align: Annotated[int, Range(1, 1 << 20)] = 32
    from_: str = ""
    until: str = ""
    passes: Annotated[float, Range(0, 1000)] = 2.0  # over one of them in a frame
    hz: Annotated[float, Range(0, 1000)] = 0.0

    @property
    def one_bytes(self) -> int:
        return self.bytes or (self.width or 0) * (self.height or 0) * self.bytes_per_pixel


class FrameLoop(Struct, frozen=True):
    """Steps that run several times in a frame."""

    most: _Count


class Region(Struct, frozen=True):
    name: str
    address: _Room
    size: _Bytes


class Application(Struct, frozen=True):
    name: str = ""
    board: str = "stm32n6570-dk"
    generation: str = ""
    fps: Annotated[float, Range(0.001, 10_000)] = 30.0
    deadline_ms: _Milliseconds | None = None
    threads: bool = False  # work and networks of a frame, and of frames, run beside each other
    order: tuple[str, ...] = ()
    networks: tuple[NetworkUse, ...] = ()
    work: tuple[UserWork, ...] = ()
    buffers: tuple[FrameBuffer, ...] = ()
    loops: dict[str, FrameLoop] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    linker: str = ""
    image_bytes: _Room = 0
    image_region: str = ""
    heap_bytes: _Room = 0
    stack_bytes: _Room = 0
    flash_address: _Room | None = None
    folder: Path = Path()
    layout: LinkerLayout = LinkerLayout()

    @property
    def listed(self) -> tuple[Step, ...]:
        """Networks and work as the file has them."""
        rows: list[Step] = [*self.networks]
        return (*rows, *self.work)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The same in the order of a frame."""
        by_name = {step.name: step for step in self.listed}
        return tuple(by_name[name] for name in self.order)

    @property
    def modes(self) -> tuple[str, ...]:
        """Kinds of frames that steps name; one without a name where none does."""
        names = dict.fromkeys(mode for step in self.steps for mode in step.when)
        return tuple(names) or ("",)

    @property
    def own_regions(self) -> tuple[FirmwareRegion, ...]:
        """RAM that the linker gives to the application."""
        stated = tuple(FirmwareRegion(r.name, r.address, r.size) for r in self.regions)
        return (*stated, *self.layout.regions)

    def runs(self, step: Step) -> int:
        """At most so many in a frame."""
        return self.loops[step.repeat].most if step.repeat else 1


def read_application(path: str | Path) -> Application:
    """Read an application file; paths in it are relative to it."""
    path = Path(path)
    table = read_toml(path, APPLICATION)
    try:
        for key in ("folder", "layout"):
            if key in table:
                raise FileError("unknown key", where=key)
        application: Application = decode(table, Application, "", TOML)
        return _completed(application, path)
    except FileError as error:
        where = f"{path}: {error.where}" if error.where else str(path)
        raise FileError(error.message, where=where, hint=error.hint) from None


def default_application(sources: tuple[str, ...], board: str, generation: str) -> Application:
    """Networks that run one after the other in every frame, and nothing else."""
    names: list[str] = []
    for source in sources:
        stem = Path(source).stem
        names.append(stem if stem not in names else f"{stem}_{len(names) + 1}")
    networks = tuple(
        NetworkUse(name, model=str(Path(source).resolve()))
        for name, source in zip(names, sources, strict=True)
    )
    return Application(
        "together", board, generation, networks=networks, order=tuple(names), folder=Path()
    )


def _completed(application: Application, path: Path) -> Application:
    """With the order, the linker's regions and everything that names something else checked."""
    if not application.networks:
        hint = 'name one: [[networks]] with name = "detector" and model = "detector.tflite"'
        raise FileError("the application has no network", where="networks", hint=hint)
    for key in ("networks", "work", "buffers"):
        if len(getattr(application, key)) > _MOST:
            raise FileError(f"has more than {_MOST} entries", where=key)
    _check_names(application)
    _check_networks(application)
    _check_buffers(application)
    order = application.order or tuple(s.name for s in application.listed)
    _check_order(application, order)
    layout = LinkerLayout()
    if application.linker:
        try:
            layout = read_linker_file(path.parent / application.linker)
        except NpuscopeError as error:
            raise FileError(f"{error.where}: {error.message}", where="linker") from None
    complete = Application(
        **{
            **{name: getattr(application, name) for name in application.__struct_fields__},
            "name": application.name or path.stem,
            "order": order,
            "folder": path.parent,
            "layout": layout,
        }
    )
    names = [region.name for region in complete.own_regions]
    for index, buffer in enumerate(complete.buffers):
        memories = [*(kind.value for kind in Kind), *names]
        _known(buffer.memory, memories, f"buffers[{index}].memory")
    _known(complete.image_region, names, "image_region")
    return complete


def _check_names(application: Application) -> None:
    if application.board not in boards():
        raise FileError(
            f"unknown board '{safe_terminal(application.board)}'",
            where="board",
            hint=f"known: {', '.join(boards())}",
        )
    names: set[str] = set()
    for key in ("networks", "work", "buffers"):
        for index, entry in enumerate(getattr(application, key)):
            if not entry.name or entry.name in names:
                what = f"'{safe_terminal(entry.name)}' is there twice" if entry.name else "is empty"
                raise FileError(what, where=f"{key}[{index}].name")
            names.add(entry.name)


def _check_networks(application: Application) -> None:
    steps = {step.name for step in application.listed}
    for index, use in enumerate(application.networks):
        place = f"networks[{index}]"
        if bool(use.model) == bool(use.build):
            raise FileError("expected either model or build", where=place)
        _known(use.input_data_type, DATA_TYPES, f"{place}.input_data_type")
        _known(use.output_data_type, DATA_TYPES, f"{place}.output_data_type")
        _known(use.input_from, steps, f"{place}.input_from")
        _known(use.output_until, steps, f"{place}.output_until")
        _known(use.repeat, application.loops, f"{place}.repeat")
        for number, name in enumerate(use.after):
            _known(name, steps, f"{place}.after[{number}]")
    for index, work in enumerate(application.work):
        _known(work.repeat, application.loops, f"work[{index}].repeat")
        for number, name in enumerate(work.after):
            _known(name, steps, f"work[{index}].after[{number}]")


def _known(name: str, names: object, place: str) -> None:
    choices = list(names)  # type: ignore[call-overload]
    if name and name not in choices:
        hint = f"known: {', '.join(map(str, sorted(choices)))}" if choices else "none is defined"
        raise FileError(f"'{safe_terminal(name)}' is not defined", where=place, hint=hint)


def _check_buffers(application: Application) -> None:
    steps = {step.name for step in application.listed}
    for index, buffer in enumerate(application.buffers):
        place = f"buffers[{index}]"
        picture = buffer.width is not None and buffer.height is not None
        if (buffer.bytes is not None) == picture:
            raise FileError("expected either bytes, or width and height", where=place)
        if buffer.align & (buffer.align - 1):
            raise FileError("is not a power of two", where=f"{place}.align")
        _known(buffer.from_, steps, f"{place}.from")
        _known(buffer.until, steps, f"{place}.until")


def _check_order(application: Application, order: tuple[str, ...]) -> None:
    steps = [step.name for step in application.listed]
    for index, name in enumerate(order):
        _known(name, steps, f"order[{index}]")
        if name in order[:index]:
            raise FileError(f"'{safe_terminal(name)}' is there twice", where=f"order[{index}]")
    absent = [name for name in steps if name not in order]
    if absent:
        raise FileError(f"'{safe_terminal(absent[0])}' is missing", where="order")
    by_name = {step.name: step for step in application.listed}
    loops = [by_name[name].repeat for name in order]
    ends = [loop for loop, after in zip(loops, [*loops[1:], ""], strict=True) if loop != after]
    for loop in application.loops:
        if ends.count(loop) > 1:
            raise FileError(f"the steps of '{safe_terminal(loop)}' do not follow one another",
                where="order")  # fmt: skip
    places = {name: place for place, name in enumerate(order)}
    for name in order:
        late = [other for other in by_name[name].after if places[other] >= places[name]]
        if late:
            raise FileError(
                f"'{safe_terminal(name)}' comes before '{safe_terminal(late[0])}'", where="order"
            )
    if math.lcm(*(step.every for step in by_name.values())) > 10_000:
        raise FileError("the steps repeat together after more than 10,000 frames", where="every")
