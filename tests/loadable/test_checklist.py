"""The checklist of builds: files, memories, caches, each from the program's own places."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

import npuscope
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError
from npuscope.loadable.checklist import make_checklist
from npuscope.loadable.checklist_memories import Agent, ByteSpan, Traffic, memories
from npuscope.program.model import Buffer, Call, Epoch, EpochKind, Pool, Program, save
from npuscope.report.checklist import answer, checklist_text
from npuscope.structs import replace
from program.sample import copy_group


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    npuscope.compile(demo_graph(), folder)
    return folder


def program(*epochs: Epoch, **changes: object) -> Program:
    """x -> y in one internal RAM; w lies behind them in flash."""
    pools = (
        Pool("npuRAM5", 0x342E0000, 0x70000, 8, 1.25, file_name="AXISRAM5"),
        Pool("octoFlash", 0x71000000, 1 << 20, 1, 6.0, writable=False, cacheable=True),
    )
    buffers = (
        Buffer("x", 128, (1, 4, 4, 8), 8, 8, "npuRAM5", 0, 0, 1),
        Buffer("y", 128, (1, 4, 4, 8), 8, 8, "npuRAM5", 128, 1, 2),
        Buffer("w", 10, (10,), 8, 10, "octoFlash", 6, is_param=True),
    )
    made = Program(
        "net", "stm32n6", "4.0", False, pools, buffers, epochs or (HARDWARE,), ("x",), ("y",)
    )
    return replace(made, **changes)  # type: ignore[arg-type]


HARDWARE = Epoch(1, 1, EpochKind.HW, groups=(copy_group(),))
SOFTWARE = Epoch(1, 1, EpochKind.SW, call=Call("Softmax", ("x",), ("y",)))


def test_a_build_of_ours(build: Path) -> None:
    found = make_checklist(build)
    assert answer(found) == (
        "1 file to write, 2 memories to power, 2 buffers with cache maintenance"
    )
    (file,) = found.initialisers
    data = (build / file.file).read_bytes()
    assert (file.file, file.pool, file.address) == ("atonbuf.xSPI2.raw", "octoFlash", 0x71000000)
    assert (file.size_bytes, file.crc32, file.problem) == (len(data), zlib.crc32(data), "")
    assert [memory.name for memory in found.memories] == ["AXISRAM5", "xSPI2"]
    assert "SRAMSD" in found.memories[0].steps[0]
    assert [(w.buffer, w.reason) for w in found.caches] == [
        ("image", "network input"),
        ("classes", "software epoch 23 (Softmax)"),
    ]
    assert any("LL_ATON_RT_ASYNC" in note for note in found.notes)


def test_the_text_starts_with_the_answer(build: Path) -> None:
    found = make_checklist(build)
    lines = checklist_text(found).splitlines()
    assert lines[0] == answer(found)
    crc = found.initialisers[0].crc32
    assert (
        f"  [ ] atonbuf.xSPI2.raw -> octoFlash at 0x71000000, 98,916 bytes, CRC-32 {crc:08x}"
        in lines
    )


def test_a_file_that_is_missing_or_too_short(tmp_path: Path, build: Path) -> None:
    (tmp_path / "c_info.json").write_bytes((build / "c_info.json").read_bytes())
    found = make_checklist(tmp_path)
    assert [row.problem for row in found.initialisers] == ["its file is missing"]
    assert answer(found).endswith("; 1 file missing or too short")
    (tmp_path / "network_atonbuf.xSPI2.raw").write_bytes(b"abc")
    (row,) = make_checklist(tmp_path).initialisers
    assert row.problem.startswith("the file ends before byte 98,")


def test_a_description_alone_gives_the_same_memories(tmp_path: Path, build: Path) -> None:
    (tmp_path / "c_info.json").write_bytes((build / "c_info.json").read_bytes())
    whole, told = make_checklist(build), make_checklist(tmp_path)
    assert [m.name for m in told.memories] == [m.name for m in whole.memories]
    assert [w.buffer for w in told.caches if w.reason == "network input"] == ["image"]


def test_a_folder_without_a_network(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no compiled network"):
        make_checklist(tmp_path)


def works(made: Program, tmp_path: Path) -> list[tuple[str, str]]:
    save(made, tmp_path)
    found = make_checklist(tmp_path)
    return [(work.buffer, work.action.split()[0]) for work in found.caches]


def test_the_npu_reads_what_the_application_wrote(tmp_path: Path) -> None:
    assert works(program(), tmp_path) == [("x", "clean"), ("y", "invalidate")]


def test_the_cpu_alone_needs_nothing(tmp_path: Path) -> None:
    made = program(SOFTWARE)
    assert works(made, tmp_path) == []
    note = "x: only the CPU reads this input; invalidate it if a DMA fills it"
    assert note in make_checklist(tmp_path).notes


def test_software_behind_hardware(tmp_path: Path) -> None:
    second = Epoch(2, 2, EpochKind.SW, call=Call("Softmax", ("y",), ("z",)))
    last = Buffer("z", 100, (1, 100), 8, 100, "npuRAM5", 256, 2, 3)
    made = program(HARDWARE, second, outputs=("z",))
    made = replace(made, buffers=(*made.buffers, last))
    assert works(made, tmp_path) == [("x", "clean"), ("y", "invalidate")]
    assert [w.generated for w in make_checklist(tmp_path).caches] == [False, True]


def test_buffers_that_share_a_cache_line_are_named(tmp_path: Path) -> None:
    made = program()
    odd = replace(made.buffers[1], offset=136)
    save(replace(made, buffers=(made.buffers[0], odd, made.buffers[2])), tmp_path)
    lines = [line for line in make_checklist(tmp_path).alignment if line.startswith("y: ")]
    assert lines
    assert "128 bytes at 0x342e0088 share a cache line of 32 bytes" in lines[0]


def test_a_buffer_across_banks_and_non_secure_addresses() -> None:
    wide = Pool("all", 0x24200000, 0x1C0000, 8, 1.25, subpools=("a", "b"))
    buffer = Buffer("x", 0x80000, (0x80000,), 8, 1, "all", 0x60000)
    made = program(pools=(wide,), buffers=(buffer,))
    found = memories(made)
    assert [(m.name, m.address, m.used_bytes) for m in found] == [
        ("AXISRAM3", 0x34260000, 0x10000),
        ("AXISRAM4", 0x34270000, 0x70000),
    ]


def test_flash_before_the_default_pool_is_the_same_chip() -> None:
    early = Pool("weights", 0x70380000, 1 << 20, 1, 6.0, writable=False)
    made = program(pools=(early,), buffers=(Buffer("w", 8, (8,), 8, 8, "weights", is_param=True),))
    assert [(m.name, m.address) for m in memories(made)] == [("xSPI2", 0x70380000)]


def test_bytes_used_twice_are_counted_once() -> None:
    same = Buffer("again", 64, (64,), 8, 64, "npuRAM5", 96)
    made = program()
    found = memories(replace(made, buffers=(*made.buffers, same)))
    assert found[0].used_bytes == 256


def test_traffic_knows_time() -> None:
    back = Epoch(2, 2, EpochKind.SW, call=Call("Copy", ("y",), ("x",)))
    traffic = Traffic(program(HARDWARE, back))
    x, y = ByteSpan(0x342E0000, 0x342E0080), ByteSpan(0x342E0080, 0x342E0100)
    assert traffic.writer(y, 1) is Agent.NPU
    assert traffic.writer(x, 1) is None
    assert traffic.writer(x, 2) is Agent.CPU
    assert traffic.read_by_npu(x, -1)
    assert not traffic.read_by_npu(y, 0)


def test_bytes_that_are_replaced_before_the_npu_reads() -> None:
    first = Epoch(1, 1, EpochKind.SW, call=Call("Softmax", ("x",), ("y",)))
    second = Epoch(2, 2, EpochKind.SW, call=Call("Copy", ("y",), ("x",)))
    third = Epoch(3, 3, EpochKind.HW, groups=(copy_group(),))
    traffic = Traffic(program(first, second, third))
    x = ByteSpan(0x342E0000, 0x342E0080)
    assert not traffic.read_by_npu(x, -1)
    assert traffic.read_by_npu(x, 1)


def test_a_pool_that_the_loader_places(tmp_path: Path) -> None:
    made = program()
    flash = replace(made.pools[1], relative=True)
    save(replace(made, pools=(made.pools[0], flash)), tmp_path)
    lines = checklist_text(make_checklist(tmp_path)).splitlines()
    assert "  [ ] octoFlash: MISSING, 16 bytes at the address that the loader gives" in lines
