"""Profiles of named devices: what is asked for, what is noted, what a log keeps."""

from __future__ import annotations

import json

import pytest

import npuscope
from models import conv_net, save, to_tflite
from npuscope import building
from npuscope.boards.simulated import SimulatedBoard
from npuscope.cli.main import main
from npuscope.demo_network import demo_graph
from npuscope.errors import DeviceError, UsageError
from npuscope.profiling.measure import RunSubject, measure
from npuscope.report.vendor_text import counter_log_text
from npuscope.structs import replace


@pytest.fixture(scope="module")
def measured():
    return npuscope.measure(demo_graph(), batch=2, ec_single_epoch=True)


def counted(profile):
    return [
        (epoch.name, epoch.kind, epoch.counters.engines, epoch.counters.busif) for epoch in profile
    ]


def test_outputs_are_compared_with_the_reference(measured):
    (note,) = (note for note in measured.profile.notes if note.startswith("output"))
    assert "against the reference" in note and "cosine 0.9999" in note


def test_samples_and_passes(measured):
    assert len(measured.recorded) == 4  # two passes of two samples
    assert measured.profile.runs[0].n == 2
    assert all(epoch.spread.n == 2 for epoch in measured.profile.epochs)


def test_a_log_gives_back_what_was_counted(measured, tmp_path):
    (tmp_path / "run.log").write_text(counter_log_text(measured))
    again = npuscope.measure(connect=f"log:{tmp_path / 'run.log'}")
    assert again.network.name == measured.network.name
    assert again.network.inputs[0].shape == measured.network.inputs[0].shape
    assert [r.options for r in again.recorded] == [r.options for r in measured.recorded]
    for ours, theirs in zip(again.profile.epochs, measured.profile.epochs, strict=True):
        assert (ours.name, ours.kind, ours.ms) == (theirs.name, theirs.kind, theirs.ms)
        assert ours.counters.busif == theirs.counters.busif
        assert ours.counters.cache == theirs.counters.cache
        kept = [(e.id, e.dir, e.active_cycles) for e in theirs.counters.engines]
        assert [(e.id, e.dir, e.active_cycles) for e in ours.counters.engines] == kept


def test_a_log_of_a_simulated_board_is_not_called_measured(measured, tmp_path, capsys):
    (tmp_path / "run.log").write_text(counter_log_text(measured))
    assert main(["profile", "--connect", f"log:{tmp_path / 'run.log'}", "-q"]) == 0
    answer = capsys.readouterr().out
    assert "simulated" in answer and "measured" not in answer


def test_names_cannot_write_lines_of_their_own(measured):
    network = measured.network
    evil = replace(network.inputs[0], name="a\ns:node:mcu_cycles:1:2:3")
    text = counter_log_text(replace(measured, network=replace(network, inputs=(evil,))))
    assert "\ns:node:mcu_cycles:1:2:3" not in text


def test_the_network_is_named_when_there_are_several():
    made = building.build(demo_graph(), {})
    other = replace(made.program, name="other")
    board = SimulatedBoard([made.program, other], made.machine)
    with pytest.raises(UsageError, match="several networks"):
        measure(board, RunSubject())
    with pytest.raises(DeviceError, match="no network 'third'"):
        measure(board, RunSubject(), network="third")
    assert measure(board, RunSubject(), network="other").network.name == "other"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--connect", "emulated"], "the emulated device needs a network"),
        (["--connect", "log:nowhere.log"], "nowhere.log"),
        ([], "no source given"),
    ],
)
def test_devices_that_are_not_there(words, message, capsys):
    assert main(["profile", *words]) in (2, 3)
    assert message in capsys.readouterr().err


def test_files_of_a_profile(tmp_path, capsys):
    model = save(tmp_path, "net.tflite", to_tflite(conv_net()))
    log, table = tmp_path / "net.log", tmp_path / "net.csv"
    words = ["profile", str(model), "--vendor-plan", "--log", str(log), "--csv", str(table)]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(table.read_text().splitlines()) == 1 + len(result["epochs"])
    assert main(["profile", str(model), "--connect", f"log:{log}", "--vendor-figures"]) == 0
    report = capsys.readouterr().out
    assert "[compiler]" in report and "Memory bandwidth / inference" in report


def test_what_cannot_be_executed_is_timed_all_the_same(tmp_path, capsys):
    model = save(tmp_path, "net.tflite", to_tflite(conv_net()))
    assert main(["compile", str(model), "-o", str(tmp_path / "out")]) == 0
    source = str(tmp_path / "out" / "c_info.json")
    capsys.readouterr()
    assert main(["profile", source, "--vendor-plan", "-q"]) == 0
    blocks = capsys.readouterr().out
    assert main(["profile", source, "-q"]) == 0
    # Counters are whole cycles: the rate has more digits than both can agree in.
    assert capsys.readouterr().out.partition(" ms, ")[0] == blocks.partition(" ms, ")[0] != ""


@pytest.mark.parametrize("option", ["--csv", "--log"])
def test_a_model_is_not_overwritten(option, tmp_path, capsys):
    model = save(tmp_path, "net.tflite", to_tflite(conv_net()))
    before = model.read_bytes()
    assert main(["profile", str(model), option, str(model)]) == 2
    assert f"{option} {model}" in capsys.readouterr().err
    assert model.read_bytes() == before


def test_one_name_for_the_build(capsys):
    assert main(["profile", "a.tflite", "--cfile", "network.c"]) == 2
    assert "--cfile" in capsys.readouterr().err


def test_without_the_program_the_compilers_figures_are_blank(measured, tmp_path, capsys):
    (tmp_path / "run.log").write_text(counter_log_text(measured))
    table = tmp_path / "run.csv"
    words = ["profile", "--connect", f"log:{tmp_path / 'run.log'}", "--full", "--csv", str(table)]
    assert main(words) == 0
    assert "ops/cycle" not in capsys.readouterr().out
    head, row, *_ = (line.split(",") for line in table.read_text().splitlines())
    known = dict(zip(head, row, strict=False))
    assert known["ops"] == known["max_cycles"] == known["ops_per_cycle"] == ""
    assert int(known["core_cycles"]) > 0
