"""The head of network.c: who wrote it, with which options, and the memory pools; and network.h."""

from __future__ import annotations

from npuscope.program.model import Buffer, Pool
from npuscope.program.network_c.writer_scope import Lines, Scope
from npuscope.text import c_comment, c_string
from npuscope.version import __version__

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
    return [*_title(scope), "", *_includes(scope), "", *_version_check(scope), "", *_pools(scope)]


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


def _includes(scope: Scope) -> Lines:
    cipher = ["ll_aton_cipher.h"] if scope.dialect.encryption_info else []
    files = (*_INCLUDES, *cipher, *([_LOADER] if scope.containers else []))
    return [f'#include "{file}"' for file in files]


def _version_check(scope: Scope) -> Lines:
    """The interface of epoch functions changed once: say so before the compiler does.

    In the vendor's form, one line with four numbers: its profiler reads them from here.
    """
    parts = zip(("MAJOR", "MINOR", "MICRO", "DEV"), scope.dialect.runtime, strict=True)
    return [
        "#if " + " || ".join(f"LL_ATON_VERSION_{name} != {number}" for name, number in parts),
        f"#  warning {c_string(f'written for the runtime of {scope.program.generation}')}",
        "#endif",
        "",
        "#if !defined(LL_ATON_DBG_BUFFER_INFO_EXCLUDED)",
        "#  define LL_ATON_DBG_BUFFER_INFO_EXCLUDED 0",
        "#endif",
    ]


def _pools(scope: Scope) -> Lines:
    lines = [line for pool in scope.program.pools for line in _pool(scope, pool)]
    return lines + [line for pool in scope.program.pools for line in _relative(scope, pool)]


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
    throughput, latency = _speed(pool)
    powers = {p.name: (p.read_power_mw, p.write_power_mw) for p in scope.machine.pools}
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


def _speed(pool: Pool) -> tuple[str, str]:
    """Throughput and latency in the three words of pool files, from width and clock."""
    if pool.cacheable:
        return "MID", "HIGH"
    return ("HIGH", "LOW") if pool.freq_ratio < 2 else ("MID", "MID")


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
