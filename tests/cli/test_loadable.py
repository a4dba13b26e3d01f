"""`inspect` of runtime-loadable images, and `checklist`: answers first, JSON for the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npuscope
from loadable import samples
from npuscope.cli.main import main
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError
from npuscope.loadable.firmware_map import known_maps, load_firmware_map
from npuscope.loadable.fitting import fit
from npuscope.loadable.image import read_image
from npuscope.loadable.layout import Flags

# The example of the vendor's package, line by line.
SEED = """\
   ┌────────────────────────┬────────────────────────────────┬────────┬──────────┬─────────┐
   │ name (addr)            │ flags                          │ foff   │ dst      │ size    │
   ├────────────────────────┼────────────────────────────────┼────────┼──────────┼─────────┤
   │ xSPI2 ({0:08x})       │ 01010500 RELOC.PARAM.0.RCACHED │ 0      │ 00000000 │ 1793265 │
   │ AXISRAM5 ({1:08x})    │ 03020200 RESET.ACTIV.WRITE     │ 0      │ 342e0000 │ 352800  │
   │ <undefined> (00000000) │ 00000000 UNUSED                │ 0      │ 00000000 │ 0       │
   └────────────────────────┴────────────────────────────────┴────────┴──────────┴─────────┘
    Table: mempool c-descriptors (off=40000074, 3 entries, from RAM)"""
POOLS = (
    samples.Pool("xSPI2", samples.RELOC_PARAM, 0, 0, 1793265),
    samples.Pool("AXISRAM5", samples.RESET_ACTIV, 0, 0x342E0000, 352800),
)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "network_rel.bin"
    path.write_bytes(samples.image())
    return path


def told(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
    assert main(["inspect", str(path), *more]) == 0
    return capsys.readouterr().out.splitlines()


def as_json(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict:
    return json.loads("\n".join(told(path, capsys, *more, "--json")))


def test_sizes_and_pools_as_in_the_vendors_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "network_rel.bin"
    path.write_bytes(samples.image(pools=POOLS, params=bytes(1793272), got=()))
    lines = told(path, capsys)
    pools = read_image(path.read_bytes()).pools
    table = SEED.format(*(pool.descriptor.name for pool in pools)).splitlines()
    assert lines[-len(table) :] == table
    assert "   PARAMS size   = 1,793,272 (0x1b5cf8)" in lines
    assert any(line.startswith("   XIP size      = ") for line in lines)


def test_the_text(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(image, capsys)
    assert lines[0] == (
        f"{image}: runtime-loadable image of 'network', runtime 1.1.1, 4 pools, XIP or COPY"
    )
    flags = "80385d22 Cortex-M55, FPU, hard float ABI, secure, with debug info, polling, GCC"
    assert f"  flags        {flags}, API 8.0" in lines
    assert "  relocations  4 in the GOT, 6 in data, 0 in code" in lines
    assert len(told(image, capsys, "-q")) == 1


def test_damage_is_in_the_first_line(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(image.read_bytes())
    data[600] ^= 1
    image.write_bytes(data)
    assert told(image, capsys)[0].endswith(", DAMAGED")
    assert as_json(image, capsys)["summary"]["trailer"] == "wrong"


def test_the_json(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(image, capsys)
    assert set(found) == {"schema", "kind", "version", "summary", "ignored"}
    assert (found["kind"], found["version"]) == ("loadable", "1.1.1")
    counts = found["summary"]
    keys = ("pools", "blobs", "relocations", "xip_bytes", "copy_bytes", "trailer", "network")
    assert [counts[key] for key in keys] == [4, 1, 10, 352, 528, "ok", "network"]
    assert counts["values"]["pools"][0] == {
        "name": "xSPI2",
        "flags": "01010500",
        "flags_text": "RELOC.PARAM.0.RCACHED",
        "foff": 0,
        "dst": 0,
        "size": 1001,
    }
    assert counts["values"]["header"]["magic"] == 0x4E49424E


def test_a_damaged_header_is_one_sentence(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image.write_bytes(image.read_bytes()[:50])
    assert main(["inspect", str(image)]) == 3
    error = capsys.readouterr().err
    assert error.startswith(f"npuscope: {image}, byte 0: 96 bytes of the header start here")
    assert "Traceback" not in error


def test_foreign_names_are_made_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a_rel.bin"
    evil = samples.Pool("\x1b[2J", samples.RESET_ACTIV, 0, 0x34000000, 8)
    path.write_bytes(samples.image(name="n\x1b]0;x\x07", pools=(evil,), got=()))
    text = "\n".join(told(path, capsys, "--firmware-map", "stm32n6570-dk") + told(path, capsys))
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_compare(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other_rel.bin"
    other.write_bytes(image.read_bytes())
    assert told(image, capsys, "--compare", str(other)) == [f"{image} and {other}: no difference"]
    flags = Flags.unpack(0x80285D22)
    other.write_bytes(samples.image(version=(1, 1, 3), flags=flags, params=bytes(1072)))
    lines = told(image, capsys, "--compare", str(other))
    assert (
        lines[0] == f"{image} and {other}: 4 differences (runtime 1, flags 1, code 1, parameters 1)"
    )
    found = as_json(image, capsys, "--compare", str(other))["compare"]
    assert (found["same"], found["other"]) == (False, str(other))
    assert found["differences"][:2] == [
        {"part": "runtime", "name": "version", "a": "1.1.1", "b": "1.1.3"},
        {"part": "flags", "name": "secure", "a": True, "b": False},
    ]


def test_compare_pools(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other_rel.bin"
    pools = list(samples.Sample().pools)
    pools[1] = samples.Pool("AXISRAM5", samples.RESET_ACTIV, 0, 0x242E0000, 352800)
    pools[2] = samples.Pool("AXISRAM3", samples.COPY_MIXED, 1008, 0x34200000, 64)
    other.write_bytes(samples.image(pools=tuple(pools)))
    rows = as_json(image, capsys, "--compare", str(other))["compare"]["differences"]
    found = {row["name"]: (row["a"], row["b"]) for row in rows if row["part"] == "pools"}
    assert found["AXISRAM5 dst"] == ("0x342e0000", "0x242e0000")
    assert found["AXISRAM4 size"] == (64, None)
    assert found["AXISRAM3 size"] == (None, 64)


@pytest.mark.parametrize("option", ["--compare", "--firmware-map"])
def test_only_for_images(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.raw").write_bytes(b"\0\1")
    assert main(["inspect", str(tmp_path / "a.raw"), option, "stm32n6570-dk"]) == 2
    assert f"{option}: {tmp_path / 'a.raw'} is not a runtime-loadable" in capsys.readouterr().err


MAP = """
cpu = "cortex-m55"
fpu = true
secure = true
debug_info = true
asynchronous = false
dialect = 2
epoch_item_bytes = 48
buffer_info_bytes = 56
exec_ram = { address = 0x34060000, size = 528 }
ext_ram = { address = 0x90000000, size = 4096 }
flash = { address = 0x71000000, size = 2048 }
pools = [
  { name = "npuRAM4", address = 0x34270000, size = 0x70000 },
  { name = "npuRAM5", address = 0x342E0000, size = 0x70000 },
]
"""


@pytest.fixture
def firmware(tmp_path: Path) -> Path:
    path = tmp_path / "board.toml"
    path.write_text(MAP)
    return path


def test_it_loads(image: Path, firmware: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(image, capsys, "--firmware-map", str(firmware))
    assert lines[0] == f"yes, as XIP or COPY: {image} on board"
    found = as_json(image, capsys, "--firmware-map", str(firmware))["firmware"]
    assert (found["loads"], found["modes"]) == (True, {"xip": True, "copy": True})
    assert all(check["passed"] for check in found["checks"])


@pytest.mark.parametrize(
    ("old", "new", "failed"),
    [
        ("m55", "m33", {"CPU"}),
        ("fpu = true", "fpu = false", {"FPU"}),
        ("secure = true", "secure = false", {"secure"}),
        ("debug_info = true", "debug_info = false", {"debug info"}),
        ("asynchronous = false", "asynchronous = true", {"asynchronous"}),
        ("dialect = 2", "dialect = 3", {"runtime"}),
        ("dialect = 2", 'runtime = "1.1.2"', {"runtime"}),
        ("epoch_item_bytes = 48", "epoch_item_bytes = 20", {"epoch item bytes"}),
        ("buffer_info_bytes = 56", "buffer_info_bytes = 64", {"buffer info bytes"}),
        ("size = 2048", "size = 1535", {"image in flash"}),
        ("size = 4096", "size = 4095", {"external RAM"}),
        ("address = 0x90000000", "address = 0x34000000", {"place of xSPI1"}),
        ("address = 0x71000000", "address = 0x34000000", {"place of xSPI2"}),
        ("0x342E0000, size = 0x70000", "0x342E0000, size = 0x50000", {"pool AXISRAM5"}),
        ("size = 528", "size = 351", {"exec RAM"}),
        ("0x34060000, size = 528", "0x342E0100, size = 528", {"exec RAM"}),
    ],
)
def test_it_does_not_load(
    old: str, new: str, failed: set[str], image: Path, firmware: Path
) -> None:
    assert MAP.count(old) == 1
    firmware.write_text(MAP.replace(old, new))
    found = fit(read_image(image.read_bytes()), load_firmware_map(firmware))
    checks = (*found.common, *found.xip, *found.copy)
    assert {check.name for check in checks if check.passed is False} == failed
    assert not found.loads


def test_ways_of_loading(firmware: Path) -> None:
    firmware.write_text(MAP.replace("size = 528", "size = 352"))
    small = fit(read_image(samples.image()), load_firmware_map(firmware))
    assert (small.xip_loads, small.copy_loads) == (True, False)
    moved = samples.image(flash_relocation=True)
    firmware.write_text(MAP)
    found = fit(read_image(moved), load_firmware_map(firmware))
    assert (found.xip_loads, found.copy_loads, found.loads) == (False, True, True)


def test_a_damaged_image_does_not_load(firmware: Path) -> None:
    data = bytearray(samples.image())
    data[600] ^= 1
    assert not fit(read_image(bytes(data)), load_firmware_map(firmware)).loads


def test_what_the_map_does_not_tell_is_not_checked(firmware: Path) -> None:
    firmware.write_text("[ext_ram]\naddress = 0x90000000\nsize = 65536\n")
    found = fit(read_image(samples.image()), load_firmware_map(firmware))
    assert found.loads
    assert sum(check.passed is None for check in found.common) >= 10


def test_a_split_image_needs_room_twice(firmware: Path) -> None:
    data, params = samples.build(samples.Sample(split=True))
    firmware.write_text(MAP + "params = { address = 0x71000800, size = 1071 }\n")
    found = fit(read_image(data, params), load_firmware_map(firmware))
    assert [c.name for c in found.common if c.passed is False] == ["parameters in flash"]


def test_the_packaged_map(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "stm32n6570-dk" in known_maps()
    lines = told(image, capsys, "--firmware-map", "stm32n6570-dk")
    assert lines[0].startswith("yes, as XIP or COPY, as far as the map states: ")
    exec_ram = [line.split()[-1] for line in lines if "exec RAM" in line]
    assert exec_ram == ["0x34060000", "0x34060000"]


def test_a_large_image_runs_from_external_ram() -> None:
    big = read_image(samples.image(bss_bytes=1 << 20))
    check = fit(big, load_firmware_map("stm32n6570-dk")).xip[1]
    assert (check.passed, check.offered) == (True, "4,194,304 bytes at 0x91c00000")


def test_a_map_in_json(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"cpu": 3362, "exec_ram": [{"address": "0x34060000", "size": 4096}]}')
    found = load_firmware_map(path)
    assert (found.name, found.cpu, found.exec_ram[0].address) == ("m", 0xD22, 0x34060000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exec_rm = 3", "$: unknown key 'exec_rm'; known: name, cpu, "),
        ("[flash]\naddress = 0\nsize = 1\nbase = 2", "$.flash: unknown key 'base'; known: name"),
        ("[flash]\naddress = 0", "$.flash.size: this key is missing"),
        (
            "[flash]\naddress = 0xFFFFFFFF\nsize = 2",
            "$.flash: 2 bytes at 0xffffffff are not a range of 32-bit addresses",
        ),
        ("[[pools]]\naddress = 0\nsize = 1", "$.pools[0].name: this key is missing"),
        ("fpu = 1", "$.fpu: expected true or false"),
        ('cpu = "z80"', "$.cpu: unknown CPU 'z80'; known: cortex-m0-plus, cortex-m3"),
        ('runtime = "1.1"', "$.runtime: expected three numbers such as 1.1.1"),
        ("dialect = 4", "$.dialect: expected 2 or 3"),
        ('dialect = 3\nruntime = "1.1.1"', "$.dialect: dialect 3 belongs to runtime 1.1.3"),
        ("[1]", "$: unknown key '1'"),
        ("= x", "is neither TOML nor JSON: "),
        ("{1", "is neither TOML nor JSON: "),
    ],
)
def test_maps_that_are_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text)
    with pytest.raises(FileError) as raised:
        load_firmware_map(path)
    assert raised.value.message.startswith(message)
    assert raised.value.where == str(path)


def test_a_map_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError) as raised:
        load_firmware_map(tmp_path / "none")
    assert "stm32n6570-dk" in raised.value.hint


def test_checklist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    npuscope.compile(demo_graph(), tmp_path)
    assert main(["checklist", str(tmp_path), "-q"]) == 0
    answer = "1 file to write, 2 memories to power, 2 buffers with cache maintenance"
    assert capsys.readouterr().out == f"{answer}\n"
    assert main(["checklist", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "npuscope/checklist/1"
    assert (found["files"][0]["address"], len(found["files"][0]["crc32"])) == (0x71000000, 8)
    assert [memory["name"] for memory in found["memories"]] == ["AXISRAM5", "xSPI2"]
    assert found["buffers"][0]["aligned"] is True


def test_checklist_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checklist", str(tmp_path)]) == 3
    assert "holds no compiled network" in capsys.readouterr().err
