"""The hardware epochs that network.c leaves to epoch-controller blobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from npuscope.errors import FileError
from npuscope.program.addresses import AddressMap
from npuscope.program.ec_blob.binary import copy_name, read_binary, relocated
from npuscope.program.ec_blob.instructions import Instruction
from npuscope.program.ec_blob.lift import Lifted, lift
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.program.network_c.layout import Flag
from npuscope.program.network_c.lives import settled
from npuscope.program.network_c.reader import ListedEpoch, NetworkC
from npuscope.structs import replace
from npuscope.text import safe_terminal

# How files of 2.0 and of 2.1 and 2.2 call a container; its copy has the name of the blob.
_CONTAINERS = ("_reloc", "_binary")


def with_blobs(
    network: NetworkC, blobs: Mapping[str, bytes], encrypted: Collection[str] = ()
) -> Program:
    """One epoch for every label of a blob, with the units that its registers describe.

    `encrypted` are the names of blobs that only the device can read.
    """
    program = network.program
    names = {item.blob: _source(item.blob, blobs) for item in network.items if item.blob}
    hidden = {item.blob for item in network.items if item.flags & Flag.blob_encrypted}
    secret = [name for blob, name in names.items() if name in encrypted or blob in hidden]
    missing = [name for name in names.values() if name not in blobs]
    readable = {item: name for item, name in names.items() if name not in (*secret, *missing)}
    reasons = ((missing, "not in the folder"), (secret, "encrypted and cannot be read here"))
    program = replace(
        program,
        notes=(
            *program.notes,
            *[f"blobs {', '.join(names)} are {why}" for names, why in reasons if names],
        ),
    )
    if not readable:
        return program
    # Nothing but the blobs tells how long most buffers are used: until then they live for ever.
    places = AddressMap(program.pools, network.stated)
    codes = {name: _code(name, blobs[name], network.bases) for name in readable.values()}
    lifted = lift(codes.values(), places, tuple(codes))
    epochs = _expanded(program, network.items, readable, lifted)
    pools = (*program.pools, lifted.pool) if lifted.buffers else program.pools
    stated = {buffer.name for buffer in network.stated}
    whole = (buffer for buffer in places.whole_pools if buffer.name not in stated)
    views = program.buffers[len(network.stated) :]
    placed = settled((*network.stated, *whole), epochs, program.outputs)
    return replace(
        program,
        pools=pools,
        buffers=(*placed, *views, *lifted.buffers),
        epochs=epochs,
        constants={**program.constants, **lifted.constants},
    )


def _source(name: str, blobs: Mapping[str, bytes]) -> str:
    """A blob with relocations runs from a copy: what it is copied from."""
    origins = (name, *(name + end for end in _CONTAINERS), name.removesuffix(copy_name("")))
    return next((origin for origin in origins if origin in blobs), origins[-1])


def _code(name: str, data: bytes, bases: Mapping[str, int]) -> tuple[Instruction, ...]:
    where = f"blob '{safe_terminal(name)}'"
    try:
        binary = read_binary(data)
    except FileError as error:
        raise FileError(error.message, where=f"{where}, {error.where}", hint=error.hint) from None
    identifiers = {row.identifier for row in binary.relocations}
    if unknown := sorted(identifiers - set(bases)):
        raise FileError(
            f"it is relative to the base '{safe_terminal(unknown[0])}', but no pool of network.c "
            "has this name",
            where=where,
            hint="are network.c and its file of blobs from the same build?",
        )
    return relocated(binary, {symbol: bases[symbol] for symbol in identifiers}).instructions


def _expanded(
    program: Program, items: tuple[ListedEpoch, ...], readable: Collection[str], lifted: Lifted
) -> tuple[Epoch, ...]:
    epochs: list[Epoch] = []
    blob = 0
    listed, unlisted = program.epochs[: len(items)], program.epochs[len(items) :]
    for item, epoch in zip(items, listed, strict=True):
        if item.blob not in readable:
            epochs.append(epoch)
            continue
        blob += 1
        numbers = [n for n in sorted(lifted.groups) if item.number <= n <= item.last]
        if not numbers:
            where = f"blob '{safe_terminal(item.blob)}'"
            raise FileError("it holds none of the epochs of its item", where=where)
        for number in numbers:
            groups = lifted.groups[number]
            kind = EpochKind.HW if groups else EpochKind.EMPTY
            units = tuple(unit.unit for g in groups for unit in g.units if unit.unit != "STRENG")
            operators = units or ("Identity",)
            epochs.append(Epoch(number, number, kind, operators, blob=blob, groups=groups))
    return (*epochs, *unlisted)
