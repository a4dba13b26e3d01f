"""From unit configurations to a blob: what the epoch controller has to write, and when.

Every group: open clock gates and program the units, clear the switch and set the links, start
outputs first and inputs last, wait for the outputs, take everything down, close the gates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from npuscope.errors import InternalError, NpuscopeError, TargetError
from npuscope.program.addresses import pool_symbol, relative_pools
from npuscope.program.ec_blob import unit_arith, unit_streng
from npuscope.program.ec_blob import unit_compute as unit_convacc
from npuscope.program.ec_blob import unit_compute as unit_others
from npuscope.program.ec_blob.binary import EcBinary, Relocation
from npuscope.program.ec_blob.instructions import (
    MAX_BURST,
    Burst,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    decode,
    encode,
)
from npuscope.program.ec_blob.register_file import (
    MEMORY_WORD,
    SECOND_WINDOW,
    UnitRegisters,
    lower_links,
)
from npuscope.program.ec_blob.registers import (
    CLEAR_BIT,
    CTRL,
    ENABLE_BIT,
    REGISTERS_PER_PAGE,
    RESET_BIT,
    RUNNING_BIT,
    UNIT_BY_NAME,
    clock_gate,
    page_of,
    reset_value,
)
from npuscope.program.ec_blob.tables import lower_vectors
from npuscope.program.model import Epoch, Group, Pool, Program
from npuscope.program.network_c.layout import dialect
from npuscope.program.units import Activ, Arith, Convacc, PoolUnit, Ref, Streng, Unit
from npuscope.structs import replace

_POLL_INTERVAL = 100  # as the vendor's blobs have it
_GATES = UNIT_BY_NAME["CLKCTRL"].by_name["BGATES"].index
_TRANSLATE = UNIT_BY_NAME["ARITH"].by_name["TRANSLATEADDR"].index
_SWITCH = page_of("STRSWITCH", 0)


def lower(program: Program, blob: int) -> tuple[Instruction, ...]:
    """The blob with this index: the hardware epochs that carry it, in their order."""
    epochs = [epoch for epoch in program.executed if epoch.blob == blob]
    if not epochs:
        raise TargetError(f"program '{program.name}' has no epochs in blob {blob}")
    return tuple(_Lowering(program).blob(epochs))


def refuse_unheld(unit: Unit) -> None:
    """Refuse sizes that registers cannot hold, whoever writes them: a controller or a processor."""
    match unit:
        case Convacc():
            unit_convacc.lower(unit)
        case PoolUnit():
            unit_others.lower_pool(unit)
        case Arith():
            unit_arith.refuse_unheld(unit)


class _Lowering:
    def __init__(self, program: Program) -> None:
        self.constants: Mapping[str, np.ndarray] = program.constants
        self.buffers = program.buffer_map()
        self.pools = program.pool_map()

    def blob(self, epochs: Iterable[Epoch]) -> Iterator[Instruction]:
        for epoch in epochs:
            yield Label(epoch.number)
            if epoch.groups is None:
                raise TargetError(
                    "the epoch has no unit registers, so no blob can be made", where=epoch.name
                )
            for group in epoch.groups:
                yield from self._located(group, epoch.name)
        yield Irq(0)

    def _located(self, group: Group, where: str) -> list[Instruction]:
        try:
            return list(self._group(group))
        except NpuscopeError as error:
            raise type(error)(error.message, where=where, hint=error.hint) from None

    def _group(self, group: Group) -> Iterator[Instruction]:
        units = sorted(group.units, key=_start_order)
        for unit in units:
            yield WriteField(0, _GATES, clock_gate(_page(unit)), 1)
            page = _page(unit)
            match unit:
                case Streng():
                    yield from _configure(
                        page, unit_streng.lower(unit, self._address(unit.addr_base))
                    )
                case Convacc():
                    yield from _configure(page, unit_convacc.lower(unit))
                case Arith():
                    image, vectors = unit_arith.lower(unit, self.constants)
                    yield from _configure(page, image)
                    if vectors is not None:
                        yield from _load_entries(page, lower_vectors(vectors))
                case Activ():
                    image, words = unit_others.lower_activ(unit, self.constants)
                    yield from _configure(page, image)
                    yield from _writes(page, {MEMORY_WORD + i: word for i, word in words.items()})
                case PoolUnit():
                    yield from _configure(page, unit_others.lower_pool(unit))
                case _:
                    raise TargetError(
                        f"no blob can be made for {unit.unit} {unit.id}: its code book is unknown"
                    )
        links = lower_links(group.links)
        yield from _clear(_SWITCH)
        yield Write(_SWITCH, CTRL, 1 << ENABLE_BIT)
        yield from _writes(_SWITCH, links)
        for unit in units:
            yield _start(unit)
        for unit in units:
            if isinstance(unit, Streng) and unit.dir:
                yield Poll(_page(unit), CTRL, RUNNING_BIT, RUNNING_BIT, 0, _POLL_INTERVAL)
        yield from _writes(_SWITCH, dict.fromkeys(links, 0))
        for unit in units:
            yield from _clear(_page(unit))
            yield WriteField(0, _GATES, clock_gate(_page(unit)), 0)

    def _address(self, place: Ref) -> int:
        buffer = self.buffers.get(place.buffer)
        pool = self.pools.get(buffer.pool) if buffer else None
        if buffer is None or pool is None:
            raise TargetError(f"buffer '{place.buffer}' has no address")
        return pool.address + buffer.offset + place.offset


def _page(unit: Unit) -> int:
    if not 0 <= unit.id < UNIT_BY_NAME[unit.unit].count:
        raise TargetError(f"the machine has no {unit.unit} {unit.id}")
    return page_of(unit.unit, unit.id)


def _start_order(unit: Unit) -> int:
    """A unit must find its readers running already: outputs start first, inputs last."""
    if isinstance(unit, Streng):
        return 0 if unit.dir else 2
    return 1


def _start(unit: Unit) -> Instruction:
    # The vendor never reads CTRL of a CONVACC back, so one bit of it is not set alone either.
    if isinstance(unit, Convacc):
        control = unit_convacc.lower(unit).words["CTRL"]
        return Write(_page(unit), CTRL, control | 1 << ENABLE_BIT)
    return WriteField(_page(unit), CTRL, ENABLE_BIT, 1)


def _configure(page: int, image: UnitRegisters) -> Iterator[Instruction]:
    """CTRL first, with the unit still off, then what differs from the reset values.

    Each group ends with a reset of its units, so the rest holds these values already.
    """
    words = {image.unit.by_name[name].index: word for name, word in image.words.items()}
    yield Write(page, CTRL, words.pop(CTRL))
    differ = {i: word for i, word in words.items() if word != reset_value(page, i)}
    yield from _writes(page, differ)


def _load_entries(page: int, words: list[int]) -> Iterator[Instruction]:
    """Two windows onto the memory; the second one starts at entry 128."""
    room = REGISTERS_PER_PAGE - MEMORY_WORD
    yield Write(page, _TRANSLATE, 1)
    yield from _writes(page, dict(enumerate(words[:room], MEMORY_WORD)))
    if len(words) > room:
        yield Write(page, _TRANSLATE, 0)
        first = MEMORY_WORD + room - 2 * SECOND_WINDOW
        yield from _writes(page, dict(enumerate(words[room:], first)))


def _writes(page: int, words: Mapping[int, int]) -> Iterator[Instruction]:
    """Registers and their words; neighbours share a burst."""
    run: list[tuple[int, int]] = []
    for index, word in sorted(words.items()):
        if run and (index != run[-1][0] + 1 or len(run) == MAX_BURST):
            yield _write_run(page, run)
            run = []
        run.append((index, word))
    if run:
        yield _write_run(page, run)


def _write_run(page: int, run: list[tuple[int, int]]) -> Instruction:
    index, word = run[0]
    if len(run) == 1:
        return Write(page, index, word)
    return Burst(page, index, tuple(word for _, word in run), True)


def _clear(page: int) -> Iterator[Instruction]:
    """Empty the pipeline, then give every register its reset value; both bits fall back."""
    for bit in (CLEAR_BIT, RESET_BIT):
        yield Write(page, CTRL, reset_value(page, CTRL) | 1 << bit)
        yield Poll(page, CTRL, bit, bit, 0, _POLL_INTERVAL)


# --- Blobs with addresses in relative pools: containers with relocations ---
#
# Which words hold such addresses is found by lowering twice, with the pool in two places.

# Two places of a pool for the comparison; neither is a reset value of a register.
_PLACE = 0x10000000
_OTHER = 0x20000000


def binary_of(program: Program, blob: int, network: str) -> EcBinary:
    """The blob with this index: plain, or a container where it reads or writes relative pools."""
    pools = relative_pools(program)
    words = _words(program, blob, None)
    rows = []
    for pool in pools:
        moved = _words(program, blob, pool)
        if len(words) != len(moved):
            raise InternalError("a blob depends on the place of a pool in more than its addresses")
        places = tuple(i for i, (a, b) in enumerate(zip(words, moved, strict=True)) if a != b)
        if any(moved[i] - words[i] != _OTHER - _PLACE for i in places):
            raise InternalError("a word of a blob is not a plain address")
        if places:
            rows.append(Relocation(pool_symbol(pool, network), places))
    if not rows:
        return EcBinary(lower(program, blob))
    for place in (place for row in rows for place in row.places):
        words[place] -= _PLACE
    container = dialect(program.generation).blob_container
    return EcBinary(decode(words), container, tuple(rows))


def _words(program: Program, blob: int, moved: Pool | None) -> list[int]:
    """The code with all relative pools in the first place, but one in the other."""
    pools = tuple(
        replace(pool, address=_OTHER if pool == moved else _PLACE) if pool.relative else pool
        for pool in program.pools
    )
    return encode(lower(replace(program, pools=pools), blob))
