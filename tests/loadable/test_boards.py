"""One table of boards for estimates, packages, deployment and runs."""

from __future__ import annotations

import pytest

import npuscope
from loadable.samples import FLAGS, Sample
from loadable.samples import image as loadable
from models import mobilenet_like, save, to_tflite
from npuscope.building import machine_for
from npuscope.errors import TargetError, UsageError
from npuscope.loadable.boards import board_named, boards
from npuscope.loadable.codes import Cpu, PackageOptions
from npuscope.loadable.firmware_map import known_maps
from npuscope.loadable.fitting import refuse_misfit
from npuscope.loadable.image import read_image
from npuscope.machine.load import load_machine, set_up_of
from npuscope.options.rows import BOARDS, MACHINE
from npuscope.report.figures import answer
from npuscope.report.load_and_run import kit_commands
from npuscope.structs import replace
from npuscope.verbs.deploy import VERB as DEPLOY
from npuscope.verbs.package import VERB as PACKAGE
from npuscope.verbs.package import package
from npuscope.verbs.run import VERB as RUN

NUCLEO = "nucleo-n657x0-q"


def _choices(verb, name="board"):
    return next(o.choices for group in verb.groups for o in group.options if o.name == name)


def test_every_verb_knows_the_same_boards() -> None:
    known = tuple(boards())
    assert _choices(DEPLOY) == known
    assert _choices(RUN) == ("emulated", *known)
    assert _choices(PACKAGE) == known == BOARDS
    assert next(o.suggested for o in MACHINE if o.name == "board") == known


def test_the_discovery_kit_is_the_default_machine() -> None:
    machine = machine_for({"board": "stm32n6570-dk"})
    assert machine == replace(load_machine(), assumed=(), board="stm32n6570-dk")


def test_a_board_sets_clocks_roads_and_pools_at_once() -> None:
    machine = machine_for({"board": NUCLEO})
    assert (machine.clocks.mcu_mhz, machine.clocks.npu_mhz) == (600, 800)
    assert set_up_of(machine, "flash") == "octo-dtr-50"
    assert set_up_of(machine, "psram") == "none"
    assert machine.memory("hyperRAM").size_bytes == 0
    assert machine.memory("octoFlash").size_bytes == 48 * 2**20


@pytest.mark.parametrize(
    ("option", "value", "seen"),
    [
        ("flash", "octo-dtr-200", lambda m: set_up_of(m, "flash") == "octo-dtr-200"),
        ("psram", "hexa-dtr-200", lambda m: m.memory("hyperRAM").size_bytes == 32 * 2**20),
        ("overrides", {"psram": "octo-dtr-200"}, lambda m: m.memory("hyperRAM").size_bytes),
        ("npu_mhz", 1000.0, lambda m: m.clocks.npu_mhz == 1000 and m.clocks.mcu_mhz == 600),
        ("overrides", {"pools.hyperRAM.size_kib": 64}, lambda m: m.memory("hyperRAM").size_bytes),
        ("overrides", {"clock_mode": "nominal"}, lambda m: m.clocks.npu_mhz == 800),
    ],
)
def test_an_explicit_option_wins(option: str, value: object, seen) -> None:
    assert seen(machine_for({"board": NUCLEO, option: value}))  # type: ignore[misc]


def test_pools_of_a_file_win(tmp_path) -> None:
    pools = tmp_path / "two.mpool"
    pools.write_text(
        '{"memory": {"mempools": [{"fname": "xSPI1", "name": "hyperRAM", "fformat": "FORMAT_RAW", '
        '"prop": {"rights": "ACC_WRITE", "byteWidth": 2, "freqRatio": 5, '
        '"cacheable": "CACHEABLE_ON"}, '
        '"offset": {"value": "0x90000000", "magnitude": "BYTES"}, '
        '"size": {"value": "8", "magnitude": "MBYTES"}}]}}'
    )
    machine = machine_for({"board": NUCLEO, "mpool": pools})
    assert machine.memory("hyperRAM").size_bytes == 8 * 2**20
    assert set_up_of(machine, "flash") in ("octo-dtr-50", "none")


def test_an_unknown_board() -> None:
    with pytest.raises(UsageError, match="unknown board 'eval'"):
        machine_for({"board": "eval"})


@pytest.mark.parametrize(
    ("options", "assumed"),
    [
        ({}, ("flash", "psram")),
        ({"board": NUCLEO}, ()),
        ({"flash": "octo-dtr-50"}, ("psram",)),
        ({"overrides": {"psram": "hexa-dtr-50"}}, ("flash",)),
        ({"overrides": {"paths.xspi2.bytes_per_cycle": 1.0}}, ()),
        ({"overrides": {"clocks.npu_mhz": 800}}, ("flash", "psram")),
    ],
)
def test_what_nobody_stated_is_assumed(options, assumed) -> None:
    assert machine_for(options).assumed == assumed


def test_the_answer_names_what_it_assumes_of_memories_in_use(tmp_path) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    first = answer(npuscope.estimate(model))
    assert "(predicted, assuming flash octo-dtr-200, known error" in first
    assert "assuming" not in answer(npuscope.estimate(model, board=NUCLEO))
    assert "assuming" not in answer(npuscope.estimate(model, flash="octo-dtr-50"))


def test_the_table_of_boards_is_no_firmware_map() -> None:
    assert known_maps() == ("stm32n6570-dk",)


def test_an_image_that_needs_ram_outside_does_not_go_onto_a_board_without() -> None:
    flags = replace(FLAGS, cpu=Cpu.CORTEX_M55)
    got = (0x20000061, 0x40000004, 0x80000010, 0, 0, 0)
    inside = loadable(pools=Sample().pools[:-1], flags=flags, got=got)
    refuse_misfit(read_image(inside, None), NUCLEO)
    outside = read_image(loadable(flags=flags), None)
    refuse_misfit(outside, "stm32n6570-dk")
    with pytest.raises(TargetError, match=r"external RAM .* the board's is none"):
        refuse_misfit(outside, NUCLEO)


def test_a_rate_without_a_name_is_told_in_figures() -> None:
    machine = load_machine(overrides={"paths.xspi2.bytes_per_cycle": 1.25})
    assert set_up_of(machine, "flash") == "250 MB/s"


def test_commands_for_a_kit_name_its_flash_loader(tmp_path) -> None:
    commands = kit_commands(NUCLEO, tmp_path, set(), (0x71000000, 0x71800000)).commands
    assert f"--board {NUCLEO}" in commands[0]
    assert board_named(NUCLEO).loader in commands[1]


def test_a_package_takes_the_processor_of_the_board(monkeypatch) -> None:
    seen: list[PackageOptions] = []

    def fake(source, request):
        seen.append(request)
        raise RuntimeError

    monkeypatch.setattr("npuscope.loadable.build.package", fake)
    for options in ({}, {"board": NUCLEO}, {"board": NUCLEO, "cpu": "cortex-m33"}):
        with pytest.raises(RuntimeError):
            package("net", **options)
    assert [request.cpu for request in seen] == ["cortex-m33", "cortex-m55", "cortex-m33"]
