"""The hardware epochs that network.c leaves to epoch-controller blobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from npuscope.errors import FileError
from npuscope.program.addresses import AddressMap
from npuscope.program.ec_blob.binary import copy_name, read_binary, relocated
from npuscope.program.ec_blob.instructions import Instruction
from npuscope.program.ec_blob.lift import Lifted, lift
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.program.network_c.reader import Item, NetworkC
from npuscope.text import safe_terminal


def with_blobs(network: NetworkC, blobs: Mapping[str, bytes]) -> Program:
    """One epoch for every label of a blob, with the units that its registers describe."""
    program = network.program
    named = [item for item in network.items if item.blob]
    sources = [_source(item.blob, blobs) for item in named]
    missing = [name for name in sources if name not in blobs]
    if not named or missing:
        note = f"blobs {', '.join(missing)} are not in the folder" if missing else ""
        return replace(program, notes=(*program.notes, note)) if note else program
    places = AddressMap(program.pools, program.buffers)
    codes = [_code(blobs[name], network.bases) for name in sources]
    lifted = lift(codes, places)
    epochs = _expanded(program, network.items, lifted)
    pools = (*program.pools, lifted.pool) if lifted.buffers else program.pools
    return replace(
        program,
        pools=pools,
        buffers=(*program.buffers, *places.whole_pools, *lifted.buffers),
        epochs=epochs,
        constants={**program.constants, **lifted.constants},
    )


def _source(name: str, blobs: Mapping[str, bytes]) -> str:
    """A blob with relocations runs from a copy: what it is copied from."""
    return name if name in blobs else name.removesuffix(copy_name(""))


def _code(data: bytes, bases: Mapping[str, int]) -> tuple[Instruction, ...]:
    binary = read_binary(data)
    named = {row.identifier for row in binary.relocations}
    known = {symbol: base for symbol, base in bases.items() if symbol in named}
    return relocated(binary, known).instructions


def _expanded(program: Program, items: tuple[Item, ...], lifted: Lifted) -> tuple[Epoch, ...]:
    epochs: list[Epoch] = []
    blob = 0
    for item, epoch in zip(items, program.epochs, strict=True):
        if not item.blob:
            epochs.append(epoch)
            continue
        blob += 1
        numbers = [n for n in sorted(lifted.groups) if item.number <= n <= item.last]
        if not numbers:
            where = f"blob '{safe_terminal(item.blob)}'"
            raise FileError("it holds none of the epochs of its item", where=where)
        epochs += [_epoch(number, blob, lifted) for number in numbers]
    return tuple(epochs)


def _epoch(number: int, blob: int, lifted: Lifted) -> Epoch:
    groups = lifted.groups[number]
    kind = EpochKind.HW if groups else EpochKind.EMPTY
    operators = tuple(unit.unit for g in groups for unit in g.units if unit.unit != "STRENG")
    return Epoch(number, number, kind, operators or ("Identity",), blob=blob, groups=groups)
