"""The array of epoch blocks, and the functions of software and hybrid epochs: a kernel between two
cache operations."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from msgspec import Struct

from npuscope.errors import TargetError
from npuscope.ops.unknown import UNKNOWN
from npuscope.program.addresses import copies_of
from npuscope.program.ec_blob.binary import blob_name, copy_name
from npuscope.program.kernel_calls.model import KernelCall, NoKernel
from npuscope.program.model import Buffer, Call, Epoch, EpochKind
from npuscope.program.network_c.layout import (
    EPOCH_ARRAY,
    FLAG_PREFIX,
    PROCESSOR_NAME,
    PROCESSOR_NUMBER,
    Flag,
)
from npuscope.program.network_c.stated_call import call_comment
from npuscope.program.network_c.writer_buffers import NoLibraryKernel, SoftwareCall
from npuscope.program.network_c.writer_kernels import fill
from npuscope.program.network_c.writer_library import (
    HEADER,
    NEEDS_KERNELS,
    LibraryCall,
    library_call,
    own_call,
    own_lines,
)
from npuscope.program.network_c.writer_scope import Lines, Scope, node_name
from npuscope.program.network_c.writer_units import UnitBlock, blocks, function_head
from npuscope.program.units import Streng
from npuscope.text import c_comment, safe_terminal

# Software and hybrid epochs: the end function calls a kernel between two cache operations.

# Lines of the CPU's cache.
_CACHE_LINE_BYTES = 32


def call_function(scope: Scope, epoch: Epoch) -> Lines:
    """Only an end function: software has nothing to start."""
    call = _call(epoch)
    kind = " ".join(epoch.operators) or call.kernel
    return [
        *function_head(scope, f"LL_ATON_End_EpochBlock_{epoch.number}"),
        *_cache(scope, call.inputs, "Invalidate"),
        f"  /* Unit= {PROCESSOR_NUMBER} [{PROCESSOR_NAME} 0] */",
        f"  /* kind={c_comment(kind)} node={node_name(epoch)} */",
        call_comment(call),
        *_work(scope, epoch, call),
        *_cache(scope, call.outputs, "Clean"),
        "}",
        "",
    ]


def drives_npu(scope: Scope, epoch: Epoch) -> bool:
    """Whether the call uses stream engines, which makes the epoch a hybrid for the runtime."""
    call = _library(scope, epoch, _call(epoch))
    return call is not None and call.drives_npu


def own_kernels(scope: Scope) -> Lines:
    """Declarations of npuscope's own kernels that are called, the header with them.

    Where the vendor's libraries have a kernel too, the build chooses by NPUSCOPE_KERNELS.
    """
    needed = {
        name for epoch in _calls(scope) if not _known(scope, epoch) for name in _own(scope, epoch)
    }
    names = {name for epoch in _calls(scope) for name in _own(scope, epoch)} - needed
    lines: Lines = []
    if needed:
        lines += [NEEDS_KERNELS, *_declared(needed), ""]
    if names:
        lines += ["#if defined(NPUSCOPE_KERNELS)", *_declared(names), "#endif", ""]
    return lines


def _declared(names: set[str]) -> Lines:
    return [f'#include "{HEADER}"', *(f"npuscope_kernel {name};" for name in sorted(names))]


def _calls(scope: Scope) -> list[Epoch]:
    return [e for e in scope.program.epochs if e.kind in (EpochKind.SW, EpochKind.HYBRID)]


def _own(scope: Scope, epoch: Epoch) -> list[str]:
    if drives_npu(scope, epoch):
        return []
    own = _own_kernel(scope, _call(epoch))
    return [own.function] if own else []


def _own_kernel(scope: Scope, call: Call) -> KernelCall | None:
    try:
        return own_call(scope, call)
    except NoKernel:
        return None


def _call(epoch: Epoch) -> Call:
    if epoch.call is None:
        raise TargetError(
            f"{epoch.name} has no kernel call, so it cannot be written as C source",
            hint="compile the model with npuscope, or read a network.c instead",
        )
    return epoch.call


def _known(scope: Scope, epoch: Epoch) -> bool:
    call = _call(epoch)
    return _library(scope, epoch, call) is not None or _software(scope, epoch, call) is not None


def _work(scope: Scope, epoch: Epoch, call: Call) -> Lines:
    """The library's move, or a kernel: npuscope's own, the library's, or a choice of both."""
    library = _library(scope, epoch, call)
    if library is not None and library.drives_npu:
        # The engines' links of an earlier epoch would disturb the library's own.
        return ["  LL_Switch_Init(NULL, 0);", *library.lines]
    vendor = library.lines if library else _software(scope, epoch, call)
    own = _own_kernel(scope, call)
    if own is None:
        return vendor or _refuse(scope, epoch, call)
    lines = own_lines(scope, own, f"call_{epoch.number}")
    if vendor is None:
        return lines
    return ["#if defined(NPUSCOPE_KERNELS)", *lines, "#else", *vendor, "#endif"]


def _refuse(scope: Scope, epoch: Epoch, call: Call) -> Lines:
    """Nobody has a kernel: say why ours cannot."""
    verbs = "estimate and explain" if call.kernel == UNKNOWN else "estimate, explain and validate"
    try:
        own_call(scope, call)
    except NoKernel as error:
        raise TargetError(
            f"no C kernel computes this {safe_terminal(epoch.operators[0])}: {error.message}",
            where=epoch.name,
            hint=f"{verbs} work without it; cut the model before it",
        ) from None
    return []


def _library(scope: Scope, epoch: Epoch, call: Call) -> LibraryCall | None:
    try:
        return library_call(scope, call, f"move_{epoch.number}")
    except NoLibraryKernel:
        return None


def _software(scope: Scope, epoch: Epoch, call: Call) -> Lines | None:
    software = SoftwareCall(scope, call, f"kernel_{epoch.number}")
    if copies_of(call):
        return None
    try:
        stem = fill(software)
    except NoLibraryKernel:
        return None
    name = f"{software.prefix}_sw_info"
    return [
        *software.arrays,
        f"  {stem}_sw_info {name} = {{",
        *software.fields,
        "  };",
        f"  ll_sw_forward_{stem.lower()}(&{name});",
    ]


def _cache(scope: Scope, names: tuple[str, ...], action: str) -> Lines:
    """The CPU's cache is clean between epochs: it drops what it reads, writes back what it made."""
    buffers = [scope.buffer(name) for name in dict.fromkeys(names) if name]
    return [_range(scope, b, action) for b in buffers if not b.is_param]


def _range(scope: Scope, buffer: Buffer, action: str) -> str:
    """Whole cache lines around a buffer."""
    pool = scope.pools[buffer.pool]
    # A pool starts with a line, wherever it is loaded.
    base = 0 if pool.relative else pool.address
    first = base + buffer.offset
    start = first // _CACHE_LINE_BYTES * _CACHE_LINE_BYTES
    end = -(-(first + buffer.size_bytes) // _CACHE_LINE_BYTES) * _CACHE_LINE_BYTES
    place = scope.code_address(pool, start - base)
    return f"  LL_ATON_Cache_MCU_{action}_Range({place}, {end - start});"


# The array of epoch blocks: what runs in which order, and what the runtime waits for.

_SOFTWARE = {EpochKind.SW: Flag.pure_sw, EpochKind.HYBRID: Flag.hybrid}


class EpochItem(Struct, frozen=True):
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


def items_of(scope: Scope) -> list[EpochItem]:
    """Neighbours in one blob become one item; everything else has its own."""
    items: list[EpochItem] = []
    for blob, run in groupby(scope.program.executed, key=lambda epoch: epoch.blob):
        epochs = list(run)
        if blob is not None and scope.program.epoch_controller:
            items.append(_blob_item(scope, blob, epochs))
        else:
            items += [item for epoch in epochs for item in _own_items(scope, epoch)]
    return items


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


def _blob_item(scope: Scope, blob: int, epochs: list[Epoch]) -> EpochItem:
    # The array that the controller reads: a relocated copy where there is one.
    name = blob_name(scope.network, blob)
    return EpochItem(
        Flag.epoch_start | Flag.epoch_end | Flag.blob | Flag.pure_hw,
        epochs[0].number,
        epochs[-1].last_number,
        blob=f"(uintptr_t)({copy_name(name) if blob in scope.containers else name})",
        inputs=_mask(e for e in _engines(epochs) if not e.dir),
        outputs=_mask(e for e in _engines(epochs) if e.dir),
        npu_cycles=sum(epoch.claims.compute_cycles for epoch in epochs),
        total_cycles=sum(epoch.claims.max_cycles for epoch in epochs),
    )


def _own_items(scope: Scope, epoch: Epoch) -> list[EpochItem]:
    if epoch.kind in _SOFTWARE:
        kind = Flag.hybrid if drives_npu(scope, epoch) else _SOFTWARE[epoch.kind]
        flags = Flag.epoch_start | Flag.epoch_end | kind
        return [EpochItem(flags, epoch.number, epoch.last_number, end=end_name(epoch))]
    parts = blocks(epoch)
    return [_hardware_item(epoch, block, parts) for block in parts]


def _hardware_item(epoch: Epoch, block: UnitBlock, parts: list[UnitBlock]) -> EpochItem:
    flags = Flag.pure_hw
    flags |= Flag.epoch_start if block == parts[0] else Flag(0)
    flags |= Flag.epoch_end if block == parts[-1] else Flag(0)
    return EpochItem(
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


def _item(item: EpochItem) -> Lines:
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
