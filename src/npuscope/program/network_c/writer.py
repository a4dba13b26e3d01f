"""A Program as network.c and network.h, for the vendor's runtime."""

from __future__ import annotations

from npuscope.machine.model import Machine
from npuscope.program.ec_blob.header import blob_name, copy_name
from npuscope.program.ec_blob.relocatable import binary_of
from npuscope.program.model import Epoch, EpochKind, Pool, Program
from npuscope.program.network_c.writer_buffers import buffer_tables
from npuscope.program.network_c.writer_calls import call_function, own_kernels
from npuscope.program.network_c.writer_header import head, network_h
from npuscope.program.network_c.writer_items import items_function
from npuscope.program.network_c.writer_scope import Lines, Scope
from npuscope.program.network_c.writer_units import blocks, hardware_functions
from npuscope.program.relative import relative_pools

# The controller reads memory, not the CPU's cache: whole lines of its own.
_LINE = "__attribute__((aligned(64)))"


def network_c_text(program: Program, machine: Machine, name: str = "network") -> str:
    """C source that the vendor's runtime of the program's generation can run."""
    scope = Scope.of(program, machine, name)
    lines = [
        *head(scope),
        "",
        *_blob_include(scope),
        *own_kernels(scope),
        *_encryption(scope),
        *_user_buffers(scope),
        *_controller_hooks(scope),
        *(line for epoch in program.epochs for line in _epoch(scope, epoch)),
        "/* scheduling DONE */",
        "",
        *items_function(scope),
        *buffer_tables(scope),
    ]
    return "\n".join(lines)


def network_h_text(program: Program, machine: Machine, name: str = "network") -> str:
    """The header an application includes: names, sizes and alignments."""
    return "\n".join([*network_h(Scope.of(program, machine, name)), ""])


def _epoch(scope: Scope, epoch: Epoch) -> Lines:
    title = f"/* scheduling epoch={epoch.number} nodes={len(epoch.operators)} */"
    if epoch.kind in (EpochKind.SW, EpochKind.HYBRID):
        return [title, "", *call_function(scope, epoch)]
    if epoch.kind is EpochKind.EMPTY or _in_blob(scope, epoch):
        return [title, ""]
    return [title, "", *(line for b in blocks(epoch) for line in hardware_functions(scope, b))]


def _in_blob(scope: Scope, epoch: Epoch) -> bool:
    return epoch.blob is not None and scope.program.epoch_controller


def _blob_include(scope: Scope) -> Lines:
    if not any(_in_blob(scope, epoch) for epoch in scope.program.epochs):
        return []
    return [f'#include "{scope.network}_ecblobs.h"', ""]


def _encryption(scope: Scope) -> Lines:
    """Weights and blobs are plain."""
    if not scope.dialect.encryption_info:
        return []
    kind = "LL_Streng_EncryptionTypedef"
    lines: Lines = []
    for what in ("Weight", "Blob"):
        lines += [
            f"const {kind} *LL_ATON_{what}Encryption_Info_{scope.network}(void)",
            "{",
            f"  static const {kind} plain = {{ .enable = 0 }};",
            "  return &plain;",
            "}",
            "",
        ]
    return lines


def _user_buffers(scope: Scope) -> Lines:
    """No buffer is left to the user, so every index is wrong."""
    lines: Lines = []
    for side in ("Input", "Output"):
        lines += [
            f"LL_ATON_User_IO_Result_t LL_ATON_Set_User_{side}_Buffer_{scope.network}"
            "(uint32_t num, void *buffer, uint32_t size)",
            "{",
            "  LL_ATON_LIB_UNUSED(num);",
            "  LL_ATON_LIB_UNUSED(buffer);",
            "  LL_ATON_LIB_UNUSED(size);",
            "  return LL_ATON_User_IO_WRONG_INDEX;",
            "}",
            "",
            f"void *LL_ATON_Get_User_{side}_Buffer_{scope.network}(uint32_t num)",
            "{",
            "  LL_ATON_LIB_UNUSED(num);",
            "  return NULL;",
            "}",
            "",
        ]
    return lines


def _controller_hooks(scope: Scope) -> Lines:
    """Blobs with relocations are copied and get their addresses once; the others are final."""
    return [
        *(f"static uint64_t {name}[{words}] {_LINE};" for name, words in _copies(scope).items()),
        f"bool LL_ATON_EC_Network_Init_{scope.network}(void)",
        "{",
        *(line for blob in scope.containers for line in _relocation(scope, blob)),
        "  return true;",
        "}",
        "",
        f"bool LL_ATON_EC_Inference_Init_{scope.network}(void)",
        "{",
        "  return true;",
        "}",
        "",
    ]


def _copies(scope: Scope) -> dict[str, int]:
    names = {blob: blob_name(scope.network, blob) for blob in scope.containers}
    return {copy_name(names[blob]): words for blob, words in scope.containers.items()}


def _relocation(scope: Scope, blob: int) -> Lines:
    """Copy, relocate by every pool that the blob may name, and let the controller see it."""
    name = blob_name(scope.network, blob)
    copy = copy_name(name)
    relocations = binary_of(scope.program, blob, scope.network).relocations
    named = {row.identifier for row in relocations}
    pools = [pool for pool in relative_pools(scope.program) if scope.symbol(pool) in named]
    return [
        "  {",
        "    unsigned int size = 0;",
        f"    const uint8_t *binary = (const uint8_t *){name};",
        f"    if (!ec_copy_blob((ECInstr *){copy}, binary, &size)) return false;",
        *(line for pool in pools for line in _rebase(scope, pool, copy)),
        f"    LL_ATON_Cache_MCU_Clean_Range((uintptr_t){copy}, sizeof({copy}));",
        "  }",
    ]


def _rebase(scope: Scope, pool: Pool, copy: str) -> Lines:
    place = f'"{scope.symbol(pool)}", (ECAddr)(uintptr_t){scope.pointer(pool)}'
    return [
        "    {",
        "      ECAddr previous = 0;",
        f"      if (!ec_reloc_by_id(ec_get_reloc_table_ptr(binary), (ECInstr *){copy}, {place},",
        "                          &previous)) return false;",
        "    }",
    ]
