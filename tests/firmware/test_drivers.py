"""The unit drivers write what our blobs write, refuse what those refuse, and fit the board."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
from pathlib import Path

import pytest

from compiler.nets import random_network, uint8_network
from firmware.host_npu import (
    DRIVERS,
    FIRMWARE,
    INCLUDES,
    WARNINGS,
    Net,
    Npu,
    blob_of,
    build,
    constants_of,
    states,
    words,
    zig_cc,
)
from firmware.random_units import random_net
from npuscope.demo_network import demo_graph
from npuscope.errors import TargetError
from npuscope.program.ec_blob.registers import UNIT_BY_NAME, clock_gate, page_of
from npuscope.program.ec_blob.unit_compute import lift_decun
from program.network_c.nets import build as compiled
from program.network_c.nets import kernels, layers, moves

GRAPHS = {
    "demo": demo_graph,
    "uint8": uint8_network,
    "moves": moves,
    "kernels": kernels,
    "layers": layers,
    **{f"random{seed}": lambda seed=seed: random_network(seed) for seed in range(8)},
}
NAMES = [f"{graph}_{generation}" for graph in GRAPHS for generation in ("2_2", "4_0")]
OK, NO_UNIT, REFUSED, STUCK = 0, -1, -2, -3
R_ARM_ABS32 = 2
DECUN_CONF = "<HBBBxHI4xQI4x"  # LL_Decun_InitTypeDef on a 64-bit machine


def compiled_net(name: str) -> Net:
    graph, _, generation = name.partition("_")
    return Net(name, *compiled(GRAPHS[graph](), generation.replace("_", ".")))


@pytest.fixture(scope="module")
def nets() -> dict[str, Net]:
    return {net.name: net for net in (*map(compiled_net, NAMES), random_net())}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, nets: dict[str, Net]) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("drivers"), nets.values())


@pytest.fixture
def npu(library: ctypes.CDLL) -> Npu:
    found = Npu(library)
    found.error()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_network_writes_what_its_blobs_write(npu: Npu, nets: dict[str, Net], name: str) -> None:
    net = nets[name]
    npu.memory = constants_of(net.program)
    items = list(net.items())
    for item, epoch, group in items:
        running, ended = states(blob_of(net.program, epoch, group))
        assert npu.run(net, item)
        assert words(npu.file) == words(running), epoch.name
        assert list(npu.file.enabled) == list(running.enabled)
        assert {page: npu.file.memory(page) for page in running.memories} == running.memories
        npu.run(net, item, end=True)
        assert words(npu.file) == words(ended) and not npu.file.enabled
        npu.file.memories.clear()
    assert items and not npu.faults and npu.error() == OK


def test_random_records_become_the_same_registers_or_are_refused(
    npu: Npu, nets: dict[str, Net]
) -> None:
    net = nets["random_units"]
    npu.memory = constants_of(net.program)
    seen: dict[tuple[str, bool], int] = {}
    for item, epoch, group in net.items():
        try:
            running = states(blob_of(net.program, epoch, group))[0]
        except TargetError:
            running = None
        npu.run(net, item)
        assert npu.error() == (OK if running else REFUSED), group
        if running:
            assert words(npu.file) == words(running), group
            assert npu.file.memories == running.memories, group
        npu.run(net, item, end=True)
        npu.file.memories.clear()
        key = group.units[0].unit, running is not None
        seen[key] = seen.get(key, 0) + 1
    assert not npu.faults
    # Both outcomes were met for every unit, and most records are good ones.
    assert len(seen) == 10 and min(seen[unit, True] for unit, _ in seen) > 20, seen


def test_units_that_do_not_exist(npu: Npu) -> None:
    nothing = ctypes.create_string_buffer(256)
    for name in ("Convacc", "Arithacc", "Activacc", "Poolacc", "Decun"):
        assert npu.library[f"LL_{name}_Init"](99, nothing) == NO_UNIT
        assert npu.library[f"LL_{name}_Init"](-1, nothing) == NO_UNIT
    assert npu.library.LL_Streng_TensorInit(10, nothing, 1) == NO_UNIT
    # Lists of descriptors are not for this driver.
    assert npu.library.LL_Streng_TensorInit(0, nothing, 2) == REFUSED
    for unit in ((1, 0), (0, 10), (2, 4), (77, 0)):  # STRENG64, one too many, ..., no kind at all
        table = (ctypes.c_uint32 * 2)(*unit)
        assert npu.library.LL_ATON_EnableUnits_Init(table, 1) == NO_UNIT
        assert npu.library.LL_ATON_DisableUnits_Init(table, 1) == NO_UNIT
    assert npu.log == []
    assert (npu.error(), npu.error()) == (NO_UNIT, OK)


def test_units_that_were_not_configured_do_not_start(npu: Npu) -> None:
    table = (ctypes.c_uint32 * 2)(0, 3)
    assert npu.library.LL_ATON_EnableUnits_Init(table, 1) == REFUSED
    assert npu.library.LL_ATON_DisableUnits_Init(table, 1) == OK
    assert npu.log == []


def test_links_to_nowhere(npu: Npu) -> None:
    for source, destination in ((27, 8), (0, 4), (0, 43 * 4)):
        link = (ctypes.c_uint32 * 5)(source, 0, destination, 0, 1)
        assert npu.library.LL_Switch_Init(link, 1) == REFUSED
    assert npu.library.LL_Switch_Init(None, 0) == OK


def test_a_stuck_unit(npu: Npu) -> None:
    npu.stuck = True
    assert npu.library.LL_Switch_Init(None, 0) == STUCK
    assert npu.library.npu_init() == STUCK
    assert npu.error() == STUCK


def test_the_whole_npu_on_and_off(npu: Npu) -> None:
    assert npu.library.npu_init() == OK
    on = {(page_of(unit, n), 0) for unit, n in (("BUSIF", 0), ("BUSIF", 1), ("INTCTRL", 0))}
    clocks = {(0, 0), (0, 2), (0, 3)}
    assert words(npu.file).keys() == on | clocks and not npu.faults
    reset = {offset // 4096 for offset, value in npu.log if value >> 30 & 1 and offset % 4096 == 0}
    units = ("STRENG", "CONVACC", "DECUN", "ACTIV", "ARITH", "POOL", "RECBUF")
    assert reset == {page_of(u, n) for u in units for n in range(UNIT_BY_NAME[u].count)}
    npu.library.npu_deinit()
    assert words(npu.file) == {}


def test_engines_that_run(npu: Npu) -> None:
    for number in (1, 4):
        npu.file.registers[page_of("STRENG", number)] = {0: 1 << 31 | 1}
    npu.library.npu_running.restype = ctypes.c_uint32
    assert npu.library.npu_running(0b10110) == 0b10010
    assert npu.library.npu_running(0b00101) == 0


def test_decompression(npu: Npu) -> None:
    conf = struct.pack(DECUN_CONF, 256, 8, 3, 1, 1023, 0b11, 0, 0)
    assert npu.library.LL_Decun_Init(1, conf) == OK
    page = page_of("DECUN", 1)
    image = npu.file.image(page)
    lifted = lift_decun(1, image)
    assert (lifted.nCV, lifted.nCWperCV, lifted.nFormatBytes, lifted.nBatches) == (256, 8, 1, 1023)
    assert [image.get(path) for path in ("BFORMAT.OSAM", "CTRL.DUALIN", "CTRL.OW")] == [3, 1, 1]
    books = struct.pack(DECUN_CONF, 256, 8, 3, 1, 1023, 0b11, 0x1000, 64)
    assert npu.library.LL_Decun_Init(1, books) == REFUSED


def test_a_blob(npu: Npu) -> None:
    page = page_of("EPOCHCTRL", 0)
    assert npu.library.npu_blob_start(0x34200004) == REFUSED and npu.log == []
    assert npu.library.npu_blob_start(0x34200008) == OK
    gate = {(0, 4): 1 << clock_gate(page)}
    assert words(npu.file) == {**gate, (page, 0): 1, (page, 2): 0x34200008}
    assert npu.log[-1] == (page * 4096, 1)  # the address is there before the start
    npu.file.registers[page] |= {0: 1 << 31 | 1, 7: 12}
    assert npu.library.npu_blob_running() and npu.library.npu_blob_label() == 12
    assert npu.library.npu_blob_stop() == OK
    assert words(npu.file) == {} and not npu.faults


def test_register_header_is_up_to_date() -> None:
    path = FIRMWARE.parent / "tools" / "write_npu_registers.py"
    spec = importlib.util.spec_from_file_location("write_npu_registers", path)
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.HEADER.read_text(encoding="utf-8") == tool.header_text(), (
        "run: python tools/write_npu_registers.py"
    )


@pytest.mark.parametrize("runtime", [2, 21, 30, 3])
@pytest.mark.parametrize("cpu", ["cortex_m33", "cortex_m55+mve_fp"])
def test_drivers_fit_position_independent_firmware(tmp_path: Path, cpu: str, runtime: int) -> None:
    """No address in read-only memory that a loader would have to patch, and no libc."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    board = ("-target", "thumb-freestanding-eabihf", f"-mcpu={cpu}", "-ffreestanding")
    flags = (*board, "-fno-sanitize=all", "-fropi", "-frwpi", "-Os", *WARNINGS, *INCLUDES)
    defined: set[str] = set()
    needed: set[str] = set()
    for source in DRIVERS:
        name = f"{source.stem}.o"
        dialect = f"-DNPUSCOPE_DIALECT={runtime}"
        messages = zig_cc(*flags, dialect, "-c", str(source), "-o", name, folder=tmp_path)
        assert messages == "", messages
        with (tmp_path / name).open("rb") as stream:
            elf = elffile.ELFFile(stream)
            symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
            needed |= {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF"}
            defined |= {s.name for s in symbols if s["st_shndx"] != "SHN_UNDEF"}
            assert not [r for r in relocations(elf) if r == R_ARM_ABS32], source.name
    assert needed - defined <= {"", "__aeabi_unwind_cpp_pr0", "__aeabi_unwind_cpp_pr1"}


def relocations(elf: object) -> list[int]:
    """Kinds of relocation in code and data; exception tables and debug information aside."""
    found = []
    for section in elf.iter_sections():  # type: ignore[attr-defined]
        if section["sh_type"] != "SHT_REL":
            continue
        target = elf.get_section(section["sh_info"]).name  # type: ignore[attr-defined]
        if target.startswith((".text", ".rodata", ".data")):
            found += [relocation["r_info_type"] for relocation in section.iter_relocations()]
    return found
