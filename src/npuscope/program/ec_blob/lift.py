"""From blobs to unit configurations: replay the register writes and note which units start.

A group is what is on and linked when the controller first waits for a stream engine. Registers
do not hold everything that a compiler writes down: a scalar operation has no geometry, a
broadcast only products of it. What is missing has no effect on values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.program.addresses import AddressMap
from npuscope.program.ec_blob import unit_arith, unit_streng
from npuscope.program.ec_blob import unit_compute as unit_convacc
from npuscope.program.ec_blob import unit_compute as unit_others
from npuscope.program.ec_blob.instructions import (
    HEADER_WORDS,
    Instruction,
    Label,
    Poll,
)
from npuscope.program.ec_blob.register_file import RegisterFile, lift_links
from npuscope.program.ec_blob.registers import CTRL, RUNNING_BIT, UNIT_BY_PAGE
from npuscope.program.ec_blob.tables import Tables
from npuscope.program.model import Buffer, Group, Pool
from npuscope.program.units import Ref, Unit
from npuscope.text import safe_terminal


class Lifted(Struct, frozen=True):
    """Groups by epoch number, and what the blobs load into units as constants of a pool."""

    groups: dict[int, tuple[Group, ...]]
    constants: dict[str, np.ndarray]
    buffers: tuple[Buffer, ...]
    pool: Pool


def lift(
    blobs: Iterable[Iterable[Instruction]], addresses: AddressMap, names: Sequence[str] = ()
) -> Lifted:
    """Run blobs in their order. `addresses` turns physical addresses into buffers; `names` tell
    the blobs apart where one of them is damaged."""
    lifter = _Lifter(addresses)
    for number, blob in enumerate(blobs):
        lifter.run(blob, f"blob '{safe_terminal(names[number])}', " if names else "")
    groups = {number: tuple(parts) for number, parts in lifter.groups.items()}
    tables = lifter.tables
    return Lifted(groups, tables.constants, tuple(tables.buffers), tables.pool())


class _Lifter:
    def __init__(self, addresses: AddressMap) -> None:
        self.addresses = addresses
        self.file = RegisterFile()
        self.tables = Tables()
        self.groups: dict[int, list[Group]] = {}
        self.epoch: int | None = None

    def run(self, blob: Iterable[Instruction], where: str) -> None:
        at = HEADER_WORDS
        self.epoch = None
        for instruction in blob:
            try:
                self.file.run(instruction)
                if isinstance(instruction, Label):
                    self.epoch = instruction.number
                    self.groups.setdefault(self.epoch, [])
                elif isinstance(instruction, Poll) and waits_for_engine(instruction):
                    self._capture()
            except FileError as error:
                place = f"word {at}, {error.where}" if error.where else f"word {at}"
                raise FileError(error.message, where=where + place, hint=error.hint) from None
            at += instruction.words
        if self.file.started:
            place = f"{where}word {at}"
            raise FileError("units are started, but nothing waits for them", where=place)

    def _capture(self) -> None:
        """The units that run now; a second wait in the same epoch adds nothing."""
        if not self.file.started:
            return
        if self.epoch is None:
            raise FileError("units are started before any label")
        self.file.started = False
        units = tuple(
            lift_unit(self.file, page, self._place, self._keep) for page in self.file.enabled
        )
        self.groups[self.epoch].append(Group(units, lift_links(self.file.switch)))

    def _place(self, address: int) -> Ref:
        return self.addresses.ref(address, self.epoch)

    def _keep(self, name: str, values: np.ndarray) -> Ref:
        group = len(self.groups[self.epoch or 0])
        return self.tables.keep(f"@epoch{self.epoch}.{group}.{name}", values)


def lift_unit(
    file: RegisterFile,
    page: int,
    place: Callable[[int], Ref],
    keep: Callable[[str, np.ndarray], Ref],
) -> Unit:
    """The configuration of a unit that is on. `place` finds addresses, `keep` stores vectors."""
    kind = UNIT_BY_PAGE[page]
    number, image = page - kind.page, file.image(page)
    match kind.name:
        case "STRENG":
            return unit_streng.lift(number, image, place(unit_streng.address(image)))
        case "CONVACC":
            return unit_convacc.lift(number, image)
        case "ARITH":
            return unit_arith.lift(number, image, file.memory(page), keep)
        case "ACTIV":
            return unit_others.lift_activ(number, image, file.memory(page), keep)
        case "POOL":
            return unit_others.lift_pool(number, image)
        case "DECUN":
            return unit_others.lift_decun(number, image)
    raise FileError(f"{kind.name} {number} is started, but this unit is unknown")


def waits_for_engine(poll: Poll) -> bool:
    """The moment at which everything that works together has been started."""
    unit = UNIT_BY_PAGE.get(poll.page)
    if unit is None or unit.name != "STRENG" or poll.register != CTRL:
        return False
    return poll.lsb <= RUNNING_BIT <= poll.msb
