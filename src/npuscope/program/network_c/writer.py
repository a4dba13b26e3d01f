"""A Program as network.c and network.h, for the vendor's runtime."""

from __future__ import annotations

from npuscope.machine.model import Machine
from npuscope.program.addresses import refuse_packed, relative_pools
from npuscope.program.ec_blob.binary import blob_name, copy_name
from npuscope.program.ec_blob.lower import binary_of
from npuscope.program.model import Buffer, Epoch, EpochKind, Pool, Program
from npuscope.program.network_c.writer_blocks import call_function, items_function, own_kernels
from npuscope.program.network_c.writer_buffers import buffer_tables
from npuscope.program.network_c.writer_scope import Lines, Scope
from npuscope.program.network_c.writer_units import blocks, hardware_functions
from npuscope.program.units import Streng
from npuscope.text import c_comment, c_string
from npuscope.version import __version__

# The head of network.c: who wrote it, with which options, and the memory pools; and network.h.

_INCLUDES = (
    "ll_aton_NN_interface.h",
    "ll_aton.h",
    "ll_aton_lib.h",
    "ll_aton_lib_sw_operators.h",
    "ll_aton_version.h",
    "ll_aton_caches_interface.h",
    "ll_sw.h",
)
_LOADER = "ecloader.h"
ALIGNMENT_BYTES = 32


def head(scope: Scope) -> Lines:
    cipher = ["ll_aton_cipher.h"] if scope.dialect.encryption_info else []
    files = (*_INCLUDES, *cipher, *([_LOADER] if scope.containers else []))
    includes = [f'#include "{file}"' for file in files]
    lines = [line for pool in scope.program.pools for line in _pool(scope, pool)]
    pools = lines + [line for pool in scope.program.pools for line in _relative(scope, pool)]
    return [*_title(scope), "", *includes, "", *_version_check(scope), "", *pools]


def _title(scope: Scope) -> Lines:
    program = scope.program
    options = {
        "model": program.model_file or program.name,
        "model-md5": program.model_md5,
        "machine": program.machine,
        "generation": program.generation,
        "enable-epoch-controller": "true" if program.epoch_controller else "false",
        "network-name": scope.network,
    }
    rows = [f" * --{key} = {_quoted(value)}" for key, value in options.items() if value]
    return [
        "/*",
        f" * Written by npuscope {__version__}. Changes are lost when it is written again.",
        " *",
        " * Command Line options:",
        *rows,
        " */",
    ]


def _quoted(value: str) -> str:
    return '"' + c_comment(value).replace('"', "'") + '"'


def _version_check(scope: Scope) -> Lines:
    """The interface of epoch functions changed once: another runtime is refused.

    In the vendor's form, one line with four numbers: its profiler reads them from here.
    """
    parts = zip(("MAJOR", "MINOR", "MICRO", "DEV"), scope.dialect.runtime, strict=True)
    return [
        "#if " + " || ".join(f"LL_ATON_VERSION_{name} != {number}" for name, number in parts),
        f"#  error {c_string(f'written for the runtime of {scope.program.generation}')}",
        "#endif",
        "",
        "#if !defined(LL_ATON_DBG_BUFFER_INFO_EXCLUDED)",
        "#  define LL_ATON_DBG_BUFFER_INFO_EXCLUDED 0",
        "#endif",
    ]


def _relative(scope: Scope, pool: Pool) -> Lines:
    """The symbol of a relative pool for tables, and a variable for code."""
    if not pool.relative:
        return []
    symbol, unused = scope.symbol(pool), "__attribute__((unused))"
    declared = f"extern unsigned char {symbol}[]; /* [{pool.used_bytes}]; */"
    if not pool.used_bytes:
        return [declared]
    return [declared, f"static unsigned char *volatile {scope.pointer(pool)} {unused} = {symbol};"]


def _pool(scope: Scope, pool: Pool) -> Lines:
    """Two comments a pool: what is used, then every property by name."""
    index = scope.pool_numbers[pool.name]
    used = f"{pool.used_bytes / 1024:.2f} KB" if pool.used_bytes else "?"
    # Throughput and latency in the three words of pool files, from width and clock.
    if pool.cacheable:
        throughput, latency = "MID", "HIGH"
    else:
        throughput, latency = ("HIGH", "LOW") if pool.freq_ratio < 2 else ("MID", "MID")
    powers = {
        p.name: (p.read_power_mw, p.write_power_mw)
        for p in (scope.machine.pools if scope.machine else ())
    }
    read_power, write_power = powers.get(pool.name, (0.0, 0.0))
    words = [
        f"index={index}",
        f"file postfix={c_comment(file_postfix(scope, pool))}",
        f"name={c_comment(pool.name)}",
        f"offset={pool.address:#x}  {'relative' if pool.relative else 'absolute'}_mode",
        f"size={pool.size_bytes}",
        *(["vpool"] if pool.virtual else []),
        "READ_WRITE" if pool.writable else "READ_ONLY",
        f"THROUGHPUT={throughput} LATENCY={latency}",
        f"byte width={pool.byte_width} freq ratio={pool.freq_ratio:g}",
        "burst max length=MAXINT burst penalty=0 pipelined=ON",
        f"cacheable={'ON' if pool.cacheable else 'OFF'}",
        f"read_power={read_power:g} write_power={write_power:g}",
        f"use4initializers={'YES' if pool.cacheable else 'NO'}",
        f"score={pool.score}",
    ]
    return [f"/* global pool {index} is {used} */", f"/* {' '.join(words)}  */"]


def file_postfix(scope: Scope, pool: Pool) -> str:
    """A virtual pool is called after its parts."""
    if pool.file_name:
        return pool.file_name
    parts = [scope.pools[name].file_name or name for name in pool.subpools if name in scope.pools]
    return "_".join(parts) or pool.name


def network_h(scope: Scope) -> Lines:
    """Counts, sizes and alignments of the network's inputs and outputs."""
    stem = f"LL_ATON_{scope.network.upper()}"
    program = scope.program
    return [
        f"/* {c_comment(program.name)}: written by npuscope {__version__}. */",
        f"#ifndef {stem}_H",
        f"#define {stem}_H",
        "",
        f"#define {stem}_C_MODEL_NAME {c_string(scope.network)}",
        f"#define {stem}_ORIGIN_MODEL_NAME {c_string(program.name)}",
        "",
        *_ends(f"{stem}_IN", [scope.buffer(name) for name in program.inputs]),
        *_ends(f"{stem}_OUT", [scope.buffer(name) for name in program.outputs]),
        "#endif",
    ]


def _ends(stem: str, buffers: list[Buffer]) -> Lines:
    lines = [f"#define {stem}_NUM ({len(buffers)})"]
    for number, buffer in enumerate(buffers, 1):
        lines += [
            f"/* {number}: {c_comment(buffer.name)} */",
            f"#define {stem}_{number}_ALIGNMENT ({ALIGNMENT_BYTES})",
            f"#define {stem}_{number}_SIZE_BYTES ({buffer.size_bytes})",
        ]
    return [*lines, ""]


# The controller reads memory, not the CPU's cache: whole lines of its own.
_LINE = "__attribute__((aligned(64)))"


def network_c_text(program: Program, machine: Machine, name: str = "network") -> str:
    """C source that the vendor's runtime of the program's generation can run."""
    for unit in (unit for epoch in program.epochs for unit in epoch.units):
        if isinstance(unit, Streng):
            refuse_packed(unit)
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
    identifiers = {row.identifier for row in relocations}
    pools = [pool for pool in relative_pools(scope.program) if scope.symbol(pool) in identifiers]
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
