"""The array of epoch blocks: what runs in which order, and what the runtime waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from npuscope.program.ec_blob.header import blob_name, copy_name
from npuscope.program.model import Epoch, EpochKind
from npuscope.program.network_c.layout import EPOCH_ARRAY, FLAG_PREFIX, Flag
from npuscope.program.network_c.writer_calls import drives_npu
from npuscope.program.network_c.writer_scope import Lines, Scope
from npuscope.program.network_c.writer_units import Block, blocks
from npuscope.program.units import Streng

_SOFTWARE = {EpochKind.SW: Flag.pure_sw, EpochKind.HYBRID: Flag.hybrid}


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the array; functions and blob are C expressions."""

    flags: Flag
    first: int
    last: int
    start: str = "NULL"
    end: str = "NULL"
    blob: str = ""
    wait: int = 0
    inputs: int = 0
    outputs: int = 0
    npu_cycles: int = 0
    total_cycles: int = 0


def end_name(epoch: Epoch) -> str:
    return f"LL_ATON_End_EpochBlock_{epoch.number}"


def items_of(scope: Scope) -> list[Item]:
    """Neighbours in one blob become one item; everything else has its own."""
    found: list[Item] = []
    for blob, run in groupby(scope.program.executed, key=lambda epoch: epoch.blob):
        epochs = list(run)
        if blob is not None and scope.program.epoch_controller:
            found.append(_blob_item(scope, blob, epochs))
        else:
            found += [item for epoch in epochs for item in _own_items(scope, epoch)]
    return found


def items_function(scope: Scope) -> Lines:
    kind = scope.dialect.item_type
    return [
        f"const {kind} *LL_ATON_EpochBlockItems_{scope.network}(void)",
        "{",
        *scope.in_ram(_table(scope)),
        f"  return {EPOCH_ARRAY};",
        "}",
        "",
    ]


def _table(scope: Scope) -> Lines:
    return [
        f"  static const {scope.dialect.item_type} {EPOCH_ARRAY}[] = {{",
        *(line for item in items_of(scope) for line in _item(item)),
        "    {",
        f"      .flags = {_flags(Flag.last_eb)},",
        "    },",
        "  };",
    ]


def _blob_item(scope: Scope, blob: int, epochs: list[Epoch]) -> Item:
    return Item(
        Flag.epoch_start | Flag.epoch_end | Flag.blob | Flag.pure_hw,
        epochs[0].number,
        epochs[-1].last_number,
        blob=f"(uintptr_t)({_code_of(scope, blob)})",
        inputs=_mask(e for e in _engines(epochs) if not e.dir),
        outputs=_mask(e for e in _engines(epochs) if e.dir),
        npu_cycles=sum(epoch.claims.compute_cycles for epoch in epochs),
        total_cycles=sum(epoch.claims.max_cycles for epoch in epochs),
    )


def _code_of(scope: Scope, blob: int) -> str:
    """The array that the controller reads: a relocated copy where there is one."""
    name = blob_name(scope.network, blob)
    return copy_name(name) if blob in scope.containers else name


def _own_items(scope: Scope, epoch: Epoch) -> list[Item]:
    if epoch.kind in _SOFTWARE:
        kind = Flag.hybrid if drives_npu(scope, epoch) else _SOFTWARE[epoch.kind]
        flags = Flag.epoch_start | Flag.epoch_end | kind
        return [Item(flags, epoch.number, epoch.last_number, end=end_name(epoch))]
    parts = blocks(epoch)
    return [_hardware_item(epoch, block, parts) for block in parts]


def _hardware_item(epoch: Epoch, block: Block, parts: list[Block]) -> Item:
    flags = Flag.pure_hw
    flags |= Flag.epoch_start if block == parts[0] else Flag(0)
    flags |= Flag.epoch_end if block == parts[-1] else Flag(0)
    return Item(
        flags,
        epoch.number,
        epoch.last_number,
        block.start,
        block.end,
        wait=_mask(block.outputs),
        inputs=_mask(block.inputs),
        outputs=_mask(block.outputs),
        npu_cycles=epoch.claims.compute_cycles if block == parts[0] else 0,
        total_cycles=epoch.claims.max_cycles if block == parts[0] else 0,
    )


def _engines(epochs: list[Epoch]) -> list[Streng]:
    return [unit for epoch in epochs for unit in epoch.units if isinstance(unit, Streng)]


def _mask(engines: Iterable[Streng]) -> int:
    return sum({1 << engine.id for engine in engines})


def _item(item: Item) -> Lines:
    # For a blob the runtime takes the wait mask as the number of the epoch controller.
    blob = [f"      .blob_address = {item.blob},"] if item.blob else []
    return [
        "    {",
        f"      .start_epoch_block = {item.start},",
        f"      .end_epoch_block = {item.end},",
        *blob,
        f"      .wait_mask = {item.wait:#010x},",
        f"      .flags = {_flags(item.flags)},",
        "#ifdef LL_ATON_EB_DBG_INFO",
        f"      .epoch_num = {item.first},",
        f"      .last_epoch_num = {item.last},",
        f"      .in_streng_mask = {item.inputs:#010x},",
        f"      .out_streng_mask = {item.outputs:#010x},",
        f"      .estimated_npu_cycles = {item.npu_cycles},",
        f"      .estimated_tot_cycles = {item.total_cycles},",
        "#endif",
        "    },",
    ]


def _flags(flags: Flag) -> str:
    return " | ".join(f"{FLAG_PREFIX}{flag.name}" for flag in flags)
