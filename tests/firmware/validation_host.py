"""The validation server in C on this machine, with the networks of `fake_device` behind it.

The program serves a line on its standard input and output, or plays recorded input from a file.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fake_device import CLOCKS, MEMORY_START, NODES, PAIR, TINY, counted
from npuscope.boards.device import CounterOption, NetworkDesc, NodeCounters, TensorDesc, granted
from npuscope.boards.wire.describe import version_word
from npuscope.boards.wire.framing import format_word
from npuscope.boards.wire.statistics import block_type
from processes import LIMIT_S

FIRMWARE = Path(__file__).parents[2] / "firmware"
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")
SERVER = tuple(
    FIRMWARE / "validation" / f"{name}.c"
    for name in (
        "wire_frame",
        "wire_fields",
        "exchange",
        "describe",
        "statistics",
        "server",
        "server_run",
        "server_memory",
    )
)
INCLUDES = tuple(f"-I{FIRMWARE / name}" for name in ("include", "runtime", "validation"))
_OPTIONS = 128

_MAIN = Path(__file__).with_name("validation_main.c")


def _tensor(desc: TensorDesc) -> str:
    dims = ", ".join(map(str, desc.shape))
    width = np.dtype(desc.dtype).itemsize
    return (
        f'{{"{desc.name}", {format_word(desc.dtype):#x}u, {width}, {len(desc.shape)}, {{{dims}}}, '
        f"{desc.scale!r}f, {desc.zero_point}, {desc.address:#x}u, 0}}"
    )


def _network(desc: NetworkDesc) -> str:
    texts = ", ".join(
        f'"{text}"' for text in (desc.name, desc.signature, desc.compiled, desc.runtime)
    )
    numbers = (
        version_word(desc.runtime),
        version_word(desc.tools),
        desc.macc,
        desc.nodes,
        len(desc.inputs),
        len(desc.outputs),
        desc.activations_bytes,
        desc.params_bytes,
    )
    return f"{{{texts}, {', '.join(f'{number}u' for number in numbers)}, 0, 0, 0, 0, 0}}"


def _list(values: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _engines(found: Iterable[tuple[int, str, int]]) -> str:
    rows = [f"{{{engine}, '{way}', {cycles}u}}" for engine, way, cycles in found]
    return _list(rows or ["{0}"])


def _engine_way(options: CounterOption) -> str:
    counted = granted(options)
    if CounterOption.STRG_O_ACTIVE in counted:
        return "'o'"
    return "'i'" if counted & (CounterOption.STRG_I_ACTIVE | CounterOption.STRG_ACTIVE) else "0"


def _node(node: NodeCounters, options: CounterOption) -> str:
    active = sorted((way, engine, cycles) for (engine, way), cycles in node.engines.items())
    rows = {
        "number": node.number,
        "last": node.last,
        "flags": node.flags,
        "block": f"{block_type(node).value}",
        "mcu_cycles": _list(node.mcu_cycles),
        "has_npu_cycles": int(node.npu_cycles is not None),
        "has_bursts": int(bool(node.bursts)),
        "has_cache": int(node.cache_read is not None),
        "npu_cycles": _list(node.npu_cycles or (0,)),
        "engine_way": _engine_way(options),
        "active_engines": len(active),
        "henv_engines": len(node.henv),
        "active": _engines((engine, way, cycles) for way, engine, cycles in active),
        "henv": _engines((engine, "i", cycles) for engine, cycles in sorted(node.henv.items())),
        "bursts": _list(
            _list(_list(node.bursts.get((port, way), (0,) * 4)) for way in "wr") for port in (0, 1)
        ),
        "cache": _list((*(node.cache_read or (0,) * 4), *(node.cache_write or (0,) * 4))),
    }
    return "{" + ", ".join(f".{name} = {value}" for name, value in rows.items()) + "}"


def _tables() -> str:
    described = (TINY, PAIR)
    node_rows = (
        _list(_node(counted(node, CounterOption(bits)), CounterOption(bits)) for node in NODES)
        for bits in range(_OPTIONS)
    )
    board = f"0x486, {CLOCKS.mcu_hz}u, {CLOCKS.noc_hz}u, {CLOCKS.npu_hz}u, {CLOCKS.nic_hz}u, true"
    return "\n".join(
        (
            f"#define NODES {len(NODES)}",
            f"#define MEMORY_START {MEMORY_START:#x}u",
            f"static validation_network networks[] = {_list(map(_network, described))};",
            "static const validation_tensor inputs[2][2] = "
            + _list(_list(map(_tensor, desc.inputs)) for desc in described)
            + ";",
            "static const validation_tensor outputs[2][2] = "
            + _list(_list(map(_tensor, desc.outputs)) for desc in described)
            + ";",
            f"static const validation_node nodes[{_OPTIONS}][NODES] = {_list(node_rows)};",
            f"static validation_board board = {{{board}, false, 0, 0, 0, 0, 0, 0, 0}};",
            "",
        )
    )


@cache
def sanitizing_compiler() -> tuple[str, ...] | None:
    """gcc with its sanitizers, where both are there."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
    command = [gcc, *flags, "-x", "c", "-", "-o", "/dev/null"]
    tried = subprocess.run(
        command, input=b"int main(void){return 0;}", capture_output=True, timeout=LIMIT_S
    )
    return (gcc, *flags) if tried.returncode == 0 else None


def compiler() -> tuple[str, ...]:
    found = sanitizing_compiler()
    if found is not None:
        return found
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("neither gcc nor ziglang is installed: no C compiler")
    return (sys.executable, "-m", "ziglang", "cc", "-fsanitize=undefined", "-g")


def build(folder: Path) -> Path:
    """The server as a program."""
    (folder / "tables.h").write_text(_tables(), encoding="utf-8")
    target = folder / "server"
    includes = (*INCLUDES, f"-I{folder}", "-Wno-missing-field-initializers", "-Wno-missing-braces")
    command = [*compiler(), *WARNINGS, *includes, *map(str, SERVER), str(_MAIN)]
    done = subprocess.run(
        [*command, "-o", str(target)], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return target


@dataclass(frozen=True)
class Server:
    """The program; one process a conversation."""

    program: Path

    def start(self, line: int, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([self.program, *words], stdin=line, stdout=line)

    def played(self, cases: Sequence[bytes], *words: str, timeout_s: float = 300) -> list[bytes]:
        """What the server says to each case's bytes, when the line ends with them."""
        given = b"".join(struct.pack("<I", len(case)) + case for case in cases)
        done = subprocess.run(
            [self.program, "plays", *words],
            input=given,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")[:4000]
        return list(_records(done.stdout))


@cache
def the_server() -> Server:
    """Built once for all tests."""
    folder = Path(tempfile.mkdtemp(prefix="npuscope-validation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Server(build(folder))


def _records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size
