"""The kernels' cases once more on a Cortex-M33 (unicorn) and a Cortex-M55 with MVE (QEMU)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from firmware.bare import M33, M55, BareM33, BareM55, Do, Region, build_firmware
from firmware.bare_build import TARGET, WARNINGS, Core, built, zig
from firmware.host_kernels import KERNELS, assert_same_bits, c_call
from firmware.kernel_memory import Arena, PackedCall, pack_call
from npuscope.graph.model import Graph
from npuscope.ops.run import run
from npuscope.program.kernel_calls.model import KernelCall

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("test_kernels_*.py"))
_HERE = "test_kernels_on_boards"
# Code behind the firmware, data where both boards have a few MiB.
_DATA = 0x90000000
_DATA_BYTES = 0x1000000


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    call: KernelCall
    values: dict[str, np.ndarray]
    expected: tuple[np.ndarray, ...]


@cache
def cases() -> tuple[Case, ...]:
    return tuple(_all_cases())


def _all_cases() -> Iterator[Case]:
    for stem in MODULES:
        if stem == _HERE:
            continue
        module = importlib.import_module(f"firmware.{stem}")
        for name, make in module.CASES:
            yield _case(f"{stem}: {name}", *make())


def _case(name: str, graph: Graph, feeds: dict[str, np.ndarray]) -> Case:
    constants = {n: np.asarray(t.data) for n, t in graph.tensors.items() if t.data is not None}
    results = run(graph, feeds)
    expected = tuple(results[output] for output in graph.outputs)
    return Case(name, c_call(graph), {**constants, **feeds}, expected)


@cache
def functions() -> tuple[str, ...]:
    return tuple(sorted({case.call.function for case in cases()}))


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """The kernels by number, for the firmware's command."""
    names = functions()
    lines = ['#include "npuscope_kernels.h"', *(f"npuscope_kernel {name};" for name in names)]
    lines += ["extern npuscope_kernel *const npuscope_test_kernels[];"]
    lines += [f"npuscope_kernel *const npuscope_test_kernels[] = {{ {', '.join(names)} }};"]
    lines += ["extern const uint32_t npuscope_test_kernel_count;"]
    lines += [f"const uint32_t npuscope_test_kernel_count = {len(names)};", ""]
    path = tmp_path_factory.mktemp("kernels") / "table.c"
    path.write_text("\n".join(lines))
    return path


# As images are built: sums and products are not fused, and floats stay out of vectors, which
# flush denormal numbers where scalar instructions do not.
_EXACT = ("-O2", "-ffp-contract=off")
_SCALAR = ("-fno-vectorize", "-fno-slp-vectorize")


def firmware(core: Core, table: Path) -> Path:
    return build_firmware(core, [table, *(kernel_object(core, p) for p in KERNELS.glob("*.c"))])


def kernel_object(core: Core, source: Path) -> Path:
    floats = _SCALAR if source.stem.endswith("_float") else ()
    flags = [*TARGET, *WARNINGS, f"-mcpu={core.cpu}", *_EXACT, *floats, f"-I{KERNELS}"]
    key = [*flags, source, *sorted(KERNELS.glob("*.h"))]
    return built(".o", key, lambda target: zig("cc", *flags, "-c", source, "-o", target))


def outputs(read: list[bytes], packed: PackedCall) -> list[np.ndarray]:
    return [
        np.frombuffer(raw, dtype).reshape(shape)
        for raw, (_, shape, dtype) in zip(read, packed.outputs, strict=True)
    ]


def _size(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def test_cortex_m33(table):
    regions = (Region(0x34000000, 0x400000), Region(_DATA, _DATA_BYTES), Region(0xE000E000, 0x1000))
    board = BareM33(firmware(M33, table), regions)
    for case in cases():
        arena = Arena(_DATA, 4)
        packed = pack_call(case.call, case.values, arena)
        board.load(_DATA, bytes(arena.data))
        reply = board.command(Do.KERNEL, functions().index(case.call.function), packed.address)
        assert reply.status == 0, case.name
        read = [board.read(place, _size(shape, dtype)) for place, shape, dtype in packed.outputs]
        compare(case, outputs(read, packed))


def test_cortex_m55_with_mve(table):
    board = BareM55(firmware(M55, table))
    packs = []
    for case in cases():
        arena = Arena(_DATA, 4)
        packs.append(pack_call(case.call, case.values, arena))
        board.load(_DATA, bytes(arena.data))
        index = functions().index(case.call.function)
        board.command(Do.KERNEL, index, packs[-1].address)
        for place, shape, dtype in packs[-1].outputs:
            board.save(place, _size(shape, dtype))
    replies, saves = board.run(timeout_s=600)
    assert all(reply.status == 0 for reply in replies)
    assert len(replies) == len(packs)
    for case, packed in zip(cases(), packs, strict=True):
        read, saves = saves[: len(packed.outputs)], saves[len(packed.outputs) :]
        compare(case, outputs(read, packed))


def compare(case: Case, found: list[np.ndarray]) -> None:
    for values, expected in zip(found, case.expected, strict=True):
        try:
            assert_same_bits(values, expected)
        except AssertionError as error:
            raise AssertionError(f"{case.name}: {error}") from None
