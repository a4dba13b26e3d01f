"""Runs of a sweep: every combination once, known by content and not by name."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from advice.sweep.samples import NO_EXTERNAL, runs_of, small_sweep, spec_file, two_models
from models import mobilenet_like, to_onnx
from npuscope.advice.sweep import runs as key
from npuscope.advice.sweep.one_run import run_json
from npuscope.building import machine_for
from npuscope.machine.load import load_machine, machine_from, machine_text


def test_every_combination_once_and_model_after_model(tmp_path: Path) -> None:
    runs = runs_of(small_sweep(tmp_path, NO_EXTERNAL))
    assert len({run.key for run in runs}) == len(runs) == 8
    assert [run.model.label for run in runs] == ["conv.tflite"] * 4 + ["dense.tflite"] * 4
    assert [run.name for run in runs[:4]] == [
        "conv.tflite (stm32n6 2.2)",
        "conv.tflite (stm32n6 2.2, pools internal)",
        "conv.tflite (stm32n6 4.0)",
        "conv.tflite (stm32n6 4.0, pools internal)",
    ]


def test_all_choices_are_in_the_name(tmp_path: Path) -> None:
    two_models(tmp_path)
    text = (
        'models = ["conv.tflite"]\nepoch_controller = false\noptimization = 0\n'
        'input_data_type = "int8"\n[[clocks]]\nnpu_mhz = 800\n'
        "[[sets]]\nset = { cache.size_bytes = 65536 }\n"
    )
    (run,) = runs_of(spec_file(tmp_path, text))
    assert run.name == (
        "conv.tflite (stm32n6 4.0, no epoch controller, O0, int8/as is, clocks 800, "
        "cache.size_bytes=65536)"
    )


def test_the_same_content_is_the_same_run(tmp_path: Path) -> None:
    two_models(tmp_path)
    (tmp_path / "copy.tflite").write_bytes((tmp_path / "conv.tflite").read_bytes())
    named = '[[clocks]]\nname = "usual"\nmcu_mhz = 800\n[[clocks]]\nname = "again"\n'
    runs = runs_of(spec_file(tmp_path, f'models = ["*.tflite"]\n{named}'))
    assert [(run.model.label, run.head()["clocks"]) for run in runs] == [
        ("conv.tflite", "usual"),
        ("dense.tflite", "usual"),
    ]


CHANGES = {
    "another machine": "[[sets]]\nset = { cache.size_bytes = 65536 }",
    "another option": "optimization = 1",
    "findings": "findings = true",
    "another type": 'output_data_type = "int8"',
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_matters_changes_the_key(tmp_path: Path, change: str) -> None:
    two_models(tmp_path)
    text = 'models = ["conv.tflite"]\n'
    (before,) = runs_of(spec_file(tmp_path, text))
    (after,) = runs_of(spec_file(tmp_path, text + CHANGES[change]))
    assert before.key != after.key


def test_version_bytes_and_shapes_change_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_models(tmp_path)
    spec = spec_file(tmp_path, 'models = ["conv.tflite"]')
    pinned = 'models = [{ path = "conv.tflite", shapes = { x = [1] } }]'
    keys = {runs_of(spec)[0].key, runs_of(spec_file(tmp_path, pinned, "pinned.toml"))[0].key}
    monkeypatch.setattr(key, "__version__", "9.9")
    keys.add(runs_of(spec)[0].key)
    (tmp_path / "conv.tflite").write_bytes(b"other")
    keys.add(runs_of(spec)[0].key)
    assert len(keys) == 4


def test_choices_of_one_name_are_not_the_same_run(tmp_path: Path) -> None:
    two_models(tmp_path)
    default, zero = (
        runs_of(spec_file(tmp_path, f'models = ["conv.tflite"]\n[[pools]]\nname = "p"\n{more}'))
        for more in ("", "set = { pools.hyperRAM.size_kib = 0 }")
    )
    assert default[0].key != zero[0].key
    assert default[0].head()["pools"] == zero[0].head()["pools"] == "p"


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0", "open"])
@pytest.mark.parametrize("controller", [True, False])
def test_a_machine_travels_as_json(generation: str, controller: bool) -> None:
    machine = load_machine(generation=generation, epoch_controller=controller)
    assert machine_from(machine_text(machine)) == machine
    changed = machine_for({"generation": generation, "overrides": {"clocks.npu_mhz": 800}})
    assert machine_from(machine_text(changed)) == changed != machine


def test_a_task_is_one_line_of_json(tmp_path: Path) -> None:
    for run in runs_of(small_sweep(tmp_path)):
        text = run.task(with_path=True)
        assert "\n" not in text
        assert json.loads(text)["path"] == str(run.model.path)
        assert "path" not in json.loads(run.task(with_path=False))
        assert str(tmp_path) not in run.task(with_path=False)


def test_a_model_that_cannot_be_read_is_a_run_too(tmp_path: Path) -> None:
    (tmp_path / "empty.tflite").write_bytes(b"")
    (tmp_path / "other.tflite").write_bytes(b"")
    runs = runs_of(spec_file(tmp_path, 'models = ["*.tflite"]'))
    assert len(runs) == 2
    assert str(runs[0].model.error) == (
        "empty.tflite: the file is empty\n  hint: it may not have been copied completely"
    )


def test_weights_beside_a_model_are_part_of_it(tmp_path: Path) -> None:
    proto = onnx.load_from_string(to_onnx(mobilenet_like()))
    onnx.save(
        proto,
        tmp_path / "net.onnx",
        save_as_external_data=True,
        size_threshold=0,
        location="data.bin",
    )
    spec = spec_file(tmp_path, 'models = ["net.onnx"]\n')
    (before,) = runs_of(spec)
    data = bytearray((tmp_path / "data.bin").read_bytes())
    data[len(data) // 2] ^= 1  # a weight
    (tmp_path / "data.bin").write_bytes(bytes(data))
    (after,) = runs_of(spec)
    assert before.model.md5 == after.model.md5
    assert before.key != after.key
    row = json.loads(run_json(after.task(with_path=True)))
    assert row["status"] == "ok", row["error"]
