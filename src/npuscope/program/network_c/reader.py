"""network.c to a Program: pools and tables first, then the epochs in the order of execution."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from msgspec import field

from npuscope.bounded_file import SOURCE, read_text
from npuscope.errors import FileError, TargetError
from npuscope.program.addresses import AddressMap
from npuscope.program.model import LISTS_ALL_EPOCHS, Buffer, Call, Epoch, EpochKind, Pool, Program
from npuscope.program.network_c.c_values import Struct, Sum, Value
from npuscope.program.network_c.layout import EPOCH_ARRAY, FLAG_VALUES, Flag
from npuscope.program.network_c.library_reader import LibraryReader
from npuscope.program.network_c.lives import settled
from npuscope.program.network_c.parse_source import (
    CallLine,
    Comment,
    CSource,
    Function,
    parse_source,
)
from npuscope.program.network_c.read_head import (
    Pools,
    SourceHeader,
    bases_of,
    pools_of,
    read_buffer,
    read_header,
    reported_shapes,
    symbols_of,
    tables_of,
)
from npuscope.program.network_c.read_kernels import read_kernel
from npuscope.program.network_c.read_library import library_call
from npuscope.program.network_c.read_software import Images, SoftwareReader
from npuscope.program.network_c.read_units import UnitReader
from npuscope.program.network_c.stated_call import stated_call
from npuscope.program.network_c.vendor_functions import KERNEL
from npuscope.program.network_c.writer_blocks import call_function
from npuscope.program.network_c.writer_scope import Scope
from npuscope.program.weight_files import AddressedBytes, PoolImages, overlaid
from npuscope.shown import counted
from npuscope.structs import replace

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"\n]+)"', re.M)
_TABLES = ("Input", "Output", "Internal")
_INTERFACE = ("Input", "Output")
_IMAGE_AXES = 4


class ListedEpoch(msgspec.Struct, frozen=True):
    """One row of the epoch-block array."""

    number: int
    last: int
    flags: int
    start: str
    end: str
    blob: str


class NetworkC(msgspec.Struct, frozen=True):
    """The file, understood. Blobs are named in items; their code lies in another file."""

    header: SourceHeader
    program: Program
    items: tuple[ListedEpoch, ...]
    bases: Mapping[str, int] = field(default_factory=dict)  # of relative pools, by symbol
    includes: frozenset[str] = frozenset()  # names of the files that it includes
    stated: tuple[Buffer, ...] = ()  # with lives as far as files state them
    report_fits: bool = True  # the c_info.json beside it is of the same compile


# From the pools and the sizes of their images to the images themselves.
FindImages = Callable[[tuple[Pool, ...], Mapping[str, int]], PoolImages]


def image_sizes(buffers: Iterable[Buffer]) -> dict[str, int]:
    """By pool that holds parameters: the bytes up to the last of them."""
    sizes: dict[str, int] = {}
    for buffer in buffers:
        if buffer.is_param and not buffer.view_of:
            end = buffer.offset + buffer.size_bytes
            sizes[buffer.pool] = max(sizes.get(buffer.pool, 0), end)
    return sizes


def read_network_c(
    path: str | Path,
    find: FindImages | None = None,
    report_buffers: Iterable[Buffer] = (),
) -> NetworkC:
    """`find` knows the bytes of parameter pools; `report_buffers` are those that another file tells
    of, with their lives."""
    path = Path(path)
    text = read_text(path, SOURCE, errors="replace")
    if not text.strip():
        raise FileError("is empty", where=str(path), hint="copy or generate the network again")
    try:
        return _understood(text, path, find, tuple(report_buffers))
    except FileError as error:
        raise FileError(error.message, where=error.where or str(path), hint=error.hint) from error
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError) as error:
        raise FileError(f"a part of it cannot be understood ({error})", where=str(path)) from error


def _understood(
    text: str,
    path: Path,
    find: FindImages | None,
    report_buffers: tuple[Buffer, ...],
) -> NetworkC:
    symbols = symbols_of(text, pools_of(text))
    addresses = {symbol: pool.address for symbol, pool in symbols.items()}
    source = parse_source(text, str(path), addresses)
    header = read_header(source.comments)
    if not header.pools or not any(name.startswith("LL_ATON_") for name in source.functions):
        raise FileError(
            "is not a network.c of a Neural-ART compiler",
            hint="give the file that holds the LL_ATON functions and the pool comments",
        )
    placed = {pool.name for pool in header.pools}
    external = tuple(pool for pool in symbols.values() if pool.name not in placed)
    header = replace(header, pools=(*header.pools, *external))
    notes = [*_placement_notes(external), *_kernel_notes(text)]
    reader = _Reader(source, header, find, path.stem, report_buffers, text, notes=notes)
    includes = frozenset(_INCLUDE.findall(text))
    return replace(reader.read(), bases=bases_of(symbols), includes=includes)


_GENERIC_CONV = "= LL_SW_GENERIC_CONV"


def _kernel_notes(text: str) -> list[str]:
    """The library has kernels of several kinds for one op; most builds call the fast ones."""
    number = text.count(_GENERIC_CONV)
    if not number:
        return []
    return [
        f"{counted(number, 'convolution')} on the CPU in the library's generic kernel "
        "(LL_SW_GENERIC_CONV): its cost was not measured by itself and is taken as that of the "
        "pointwise one; the only public run with it, a transformer with 48 of them, took 42.4 ms "
        "where 25.3 were predicted"
    ]


def _placement_notes(external: tuple[Pool, ...]) -> list[str]:
    if not external:
        return []
    names, pool = ", ".join(pool.name for pool in external), external[0]
    return [
        f"the application decides where to place {names}: timed as the compiler assumes, with "
        f"{pool.byte_width} bytes per cycle"
    ]


# What a C compiler does not see; strings stay as they are.
_UNSEEN = re.compile(r'("(?:[^"\\\n]|\\.)*")|/\*.*?\*/|//[^\n]*|\s+', re.S)
_OWN_KERNEL = re.compile(r"\b(npuscope_\w+)\(&")


def _bare(text: str) -> str:
    return _UNSEEN.sub(lambda part: part[1] or "", text)


class _Reader(msgspec.Struct, dict=True):
    source: CSource
    header: SourceHeader
    find: FindImages | None
    name: str
    report_buffers: tuple[Buffer, ...] = ()
    text: str = ""
    notes: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    views: list[Buffer] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)
    tabled: frozenset[str] = frozenset()  # names in the tables; an absent operand has none
    tables: Program | None = None  # pools and buffers, before any epoch is read

    @property
    def network(self) -> str:
        """The name that our own writer gave the network; empty in files of others."""
        return dict(self.header.options).get("--network-name", "")

    def read(self) -> NetworkC:
        pools = Pools(self.header.pools)
        tables = {kind: self._table(kind, pools) for kind in _TABLES}
        rows = [buffer for rows in tables.values() for buffer in rows]
        names = {pool.name for pool in pools.pools}
        fits = _same_places(tables["Internal"] or rows, self.report_buffers, pools.pools)
        reported = (b for b in self.report_buffers if fits and b.pool in names)
        if self.network:  # our own tables say everything but how long a buffer lives
            lives = {b.name: b for b in reported}
            buffers = [
                b if b.name not in lives else b.living(lives[b.name].first, lives[b.name].last)
                for b in _unique(rows)
            ]
            buffers += [b for b in lives.values() if b.name not in {one.name for one in rows}]
        else:
            buffers = _unique([*reported, *rows])
        data: Mapping[str, bytes] = {}
        if self.find is not None:
            real = tuple(pool for pool in self.header.pools if not pool.virtual)
            ends = image_sizes(buffers)
            weights = self.find(real, ends)
            data = {**weights.data, **_of_banks(self.header.pools, weights.data, ends)}
            self.notes = [*self.notes, *weights.notes]
        self.tabled = frozenset([*(buffer.name for buffer in buffers), ""])
        self.tables = Program(
            self.name,
            "stm32n6",
            self.header.generation,
            False,
            pools.pools,
            tuple(buffers),
            (),
            (),
            (),
        )
        places = AddressMap(pools.pools, buffers)
        items = self._items()
        images = Images(pools, data)
        epochs = [self._epoch(item, places, pools, images) for item in items]
        outputs = [b.name for b in tables["Output"] if not b.is_param]
        stated = (*buffers, *self.scratch, *places.whole_pools)
        # Calls are read with the shapes of the tables, whose axes they name.
        shapes = self._reported_shapes()
        living = tuple(
            replace(b, shape=shapes[b.name], batch=shapes[b.name][-1]) if b.name in shapes else b
            for b in settled(stated, epochs, outputs)
        )
        program = Program(
            self.name,
            "stm32n6",
            self.header.generation,
            any(item.blob for item in items),
            pools.pools,
            (*living, *self.views),
            (*epochs, *self._after_the_last(epochs, living, outputs)),
            tuple(b.name for b in tables["Input"] if not b.is_param),
            tuple(outputs),
            constants=_constants(living, data),
            source="network.c",
            notes=tuple(self.notes),
            compiler_options=self.header.options,
            contradictions=tuple(self.contradictions),
        )
        return NetworkC(self.header, program, items, stated=stated, report_fits=fits)

    def _after_the_last(
        self, epochs: Sequence[Epoch], buffers: Sequence[Buffer], outputs: Sequence[str]
    ) -> tuple[Epoch, ...]:
        """The number without work that reports of 2.x count after a call of the library that makes
        an image: the change of its layout, of which no code is left."""
        last = epochs[-1] if epochs else None
        if last is None or last.call is None:
            return ()
        if not self.header.generation.startswith(LISTS_ALL_EPOCHS):
            return ()
        images = {buffer.name for buffer in buffers if len(buffer.shape) == _IMAGE_AXES}
        if not images.intersection(outputs, last.call.outputs):
            return ()
        number = last.last_number + 1
        return (Epoch(number, number, EpochKind.EMPTY, ("Transpose",)),)

    def _function(self, prefix: str) -> Function | None:
        names = (name for name in self.source.functions if name.startswith(prefix))
        return next((self.source.functions[name] for name in names), None)

    def _table(self, kind: str, pools: Pools) -> list[Buffer]:
        function = self._function(f"LL_ATON_{kind}_Buffers_Info_")
        if function is None:
            return []
        rows = [row for _, rows in tables_of(function) for row in rows]
        return [read_buffer(row, function, pools) for row in rows]

    def _reported_shapes(self) -> dict[str, tuple[int, ...]]:
        functions = (self._function(f"LL_ATON_{kind}_Buffers_Info_") for kind in _INTERFACE)
        return {
            name: shape
            for function in functions
            if function is not None
            for name, shape in reported_shapes(function).items()
        }

    def _items(self) -> tuple[ListedEpoch, ...]:
        function = self._function("LL_ATON_EpochBlockItems_")
        declaration = function.declared.get(EPOCH_ARRAY) if function else None
        if declaration is None or not isinstance(declaration.value, list):
            raise FileError(f"the array '{EPOCH_ARRAY}' is missing")
        items = [_item(row) for row in declaration.value if isinstance(row, Struct)]
        return tuple(item for item in items if not item.flags & Flag.last_eb)

    def _epoch(self, item: ListedEpoch, places: AddressMap, pools: Pools, images: Images) -> Epoch:
        start = self.source.functions.get(item.start)
        end = self.source.functions.get(item.end)
        # Reports of 2.x list library calls that move data with the NPU as software.
        as_software = self.header.generation.startswith(LISTS_ALL_EPOCHS)
        if item.flags & Flag.pure_sw or (as_software and item.flags & Flag.hybrid):
            kind = EpochKind.SW
        else:
            kind = EpochKind.HYBRID if item.flags & Flag.hybrid else EpochKind.HW
        operators, origin = _nodes([f for f in (start, end) if f])
        epoch = Epoch(item.number, item.last, kind, operators, origin)
        stated = stated_call(end) if end else None
        if stated is not None and self.tabled >= {*stated.inputs, *stated.outputs, ""}:
            if self._is_done(epoch, stated):
                return replace(epoch, call=stated)
            line = self.text.count("\n", 0, max(0, self.text.find(f" {item.end}("))) + 1
            self.contradictions.append(
                f"{self.source.where}:{line}: the C of {epoch.name} is not that of the call in its "
                "comment (the file was edited, or another version of npuscope wrote it)"
            )
            body = self._bare_text.partition(f"{item.end}(")[2].partition(";}")[0]
            own = _OWN_KERNEL.search(body)
            if own:  # only the comment can say what a kernel of ours computes
                return replace(epoch, call=Call(own[1], (), ()))
        for error in (e for f in (start, end) if f for e in f.skipped()):
            self.notes.append(f"skipped at {error.where}: {error.message}")
        if item.blob:
            return replace(epoch, groups=None)
        if kind is EpochKind.HW:
            if start is None:
                return replace(epoch, groups=None)
            reader = UnitReader(start, places, epoch.number)
            groups = reader.read()
            self.scratch += reader.scratch
            self.notes += [f"{epoch.name}: {field} is unknown" for field in reader.unknown]
            return replace(epoch, groups=None if reader.unknown else groups)
        call = self._call(epoch, end or start, places, pools, images)
        return replace(epoch, call=call)

    def _is_done(self, epoch: Epoch, call: Call) -> bool:
        """Whether the C of an epoch is what our writer writes for a call. A comment alone proves
        nothing: the board executes the C."""
        assert self.tables is not None
        try:
            scope = Scope.of(self.tables, None, self.network)
            lines = call_function(scope, replace(epoch, call=call))
        except (TargetError, ValueError, LookupError, ArithmeticError, TypeError):
            return False  # no C does what the comment says
        return _bare("\n".join(lines)) in self._bare_text

    @cached_property
    def _bare_text(self) -> str:
        return _bare(self.text)

    def _call(
        self,
        epoch: Epoch,
        function: Function | None,
        places: AddressMap,
        pools: Pools,
        images: Images,
    ) -> Call | None:
        if function is None:
            return None
        declared = function.declared
        for line in function.statements:
            if isinstance(line, CallLine) and line.name.startswith(KERNEL):
                info = declared[str(line.arguments[0])].value
                reader = SoftwareReader(places, pools, images, epoch.number, declared)
                call = read_kernel(
                    reader, line.name, info if isinstance(info, Struct) else Struct()
                )
                self.views += reader.views
                return call
        library = LibraryReader(function, places, pools, epoch.number)
        moved = library_call(library)
        self.views += library.views
        return moved


def _same_places(rows: Sequence[Buffer], reported: Sequence[Buffer], pools: Sequence[Pool]) -> bool:
    """Two files of one compile have the same buffers at the same addresses (140 of 140 public
    pairs); those of two compiles share what the networks share."""
    bases = {pool.name: pool.address for pool in pools}
    places = {(b.name, bases.get(b.pool, 0) + b.offset) for b in reported}
    shared = sum((b.name, bases.get(b.pool, 0) + b.offset) in places for b in rows)
    return not places or shared >= _SAME_PLACES * len(rows)


_SAME_PLACES = 0.8


def _of_banks(
    pools: Sequence[Pool], data: Mapping[str, bytes], ends: Mapping[str, int]
) -> dict[str, bytes]:
    """Images of virtual pools: each bank that such a pool is made of has a file."""
    banks = [AddressedBytes(p.address, data[p.name]) for p in pools if p.name in data]
    images = {
        pool.name: overlaid(banks, pool.address, pool.size_bytes)
        for pool in pools
        if pool.virtual and pool.name in ends
    }
    return {name: image for name, image in images.items() if len(image) >= ends[name]}


def _item(row: Struct) -> ListedEpoch:
    number = _number(row.fields.get("epoch_num", 0))
    start, end = (_word(row.fields.get(f"{side}_epoch_block")) for side in ("start", "end"))
    number = number or _number_in(end) or _number_in(start)
    blob = row.fields.get("blob_address", "NULL")
    # What only a build decides on (a blob that is encrypted) is told by the file of blobs.
    value = row.fields.get("flags", 0)
    words = value.symbols if isinstance(value, Sum) else (value,)
    return ListedEpoch(
        number,
        _number(row.fields.get("last_epoch_num", 0)) or number,
        sum(FLAG_VALUES.get(str(word), 0) for word in words),
        start,
        end,
        # Later files name the array through a macro.
        "" if blob in ("NULL", 0) else _word(blob).removesuffix("_address"),
    )


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _word(value: Value | None) -> str:
    if isinstance(value, Sum) and value.symbols:
        return value.symbols[0]
    return value if isinstance(value, str) and value != "NULL" else ""


def _number_in(name: str) -> int:
    tail = name.rpartition("_")[2]
    return int(tail) if tail.isdecimal() and len(tail) < 9 else 0


def _nodes(functions: Iterable[Function]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Kinds and names of the nodes that the comments tell of."""
    kinds, names = [], []
    for function in functions:
        for statement in function.statements:
            if isinstance(statement, Comment) and statement.text.startswith("kind="):
                kind, _, node = statement.text.removeprefix("kind=").partition(" node=")
                kinds.append(kind.strip())
                names.append(node.strip())
    return tuple(kinds), tuple(dict.fromkeys(names))


def _unique(buffers: list[Buffer]) -> list[Buffer]:
    """Each name once; a table may repeat what another holds."""
    return list({buffer.name: buffer for buffer in reversed(buffers)}.values())[::-1]


def _constants(buffers: Iterable[Buffer], data: Mapping[str, bytes]) -> dict[str, np.ndarray]:
    """Bytes of the parameters that the images hold."""
    constants = {}
    for buffer in buffers:
        image = data.get(buffer.pool)
        if image is not None and buffer.is_param:
            part = image[buffer.offset : buffer.offset + buffer.size_bytes]
            constants[buffer.name] = np.frombuffer(part, np.uint8)
    return constants
