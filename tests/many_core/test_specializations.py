"""Several sets of sizes in one container: compiled, listed, run by choice, read by opstats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import npuscope
from models_onnx import OnnxWriter
from npuscope.cli.main import main
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.container import read_program
from npuscope.families.many_core.qpc import CONSTANTS, read_qpc
from npuscope.families.many_core.specializations import read_config, read_layouts, read_programs

CONFIG = {"specializations": [{"rows": "16"}, {"rows": 64}]}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A product of an open number of rows, and the config of two numbers."""
    monkeypatch.chdir(tmp_path)
    w = OnnxWriter()
    x = w.input("x", ("rows", 64))
    weights = w.constant(np.random.default_rng(0).standard_normal((64, 96), np.float32))
    made = w.node("Softmax", w.node("MatMul", x, weights), axis=-1)
    Path("net.onnx").write_bytes(w.finish({made: None}))
    Path("sizes.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return Path("net.onnx")


FLAT = {"full_batch_size": "4", "seq_len": "8", "_graph_name": "Prefill"}
NAMED = {"name": "Prefill", "symbols": {"full_batch_size": "4", "seq_len": "8"}}


@pytest.mark.parametrize("row", [FLAT, NAMED], ids=["flat", "named"])
def test_files_of_both_forms_give_the_same_sizes(row: dict, tmp_path: Path) -> None:
    path = tmp_path / "specializations.json"
    path.write_text(json.dumps({"specializations": [row]}))
    assert read_config(path) == ({"full_batch_size": 4, "seq_len": 8},)
    identity = npuscope.inspect(path)
    assert (identity.kind, identity.summary["sets"]) == ("specializations", 1)
    assert identity.summary["sizes"] == ["full_batch_size=4, seq_len=8"]


def compiled(model: Path) -> bytes:
    made = npuscope.manycore_compile(
        model, "binaries", stats_level=70, cores=2, network_specialization_config="sizes.json"
    )
    assert made.file is not None
    return made.file.read_bytes()


def test_there_is_a_program_for_each(model: Path) -> None:
    data = compiled(model)
    programs = read_programs(data)
    assert [program.layout.network for program in programs] == ["QAicGraph", "QAicGraph_s1"]
    assert [program.inputs[0].shape for program in programs] == [(16, 64), (64, 64)]
    assert len({program.layout.program_uuid for program in programs}) == 2
    assert [one.program_uuid for one in read_layouts(data)] == [
        program.layout.program_uuid for program in programs
    ]
    # A reader that knows nothing of it sees the first.
    assert read_program(data).layout == programs[0].layout


def test_constants_that_are_the_same_are_stored_once(model: Path) -> None:
    qpc = read_qpc(compiled(model))
    inner = read_qpc(qpc.need("osb.spec.1"))
    assert qpc.get(CONSTANTS) and inner.get(CONSTANTS) == b""
    first, second = read_programs(compiled(model))
    assert first.constants.keys() == second.constants.keys()
    assert all((first.constants[name] == second.constants[name]).all() for name in first.constants)


def test_one_is_chosen_at_run_and_found_again_by_opstats(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(model)
    Path("stats").mkdir()
    times = []
    for name in ("0", "QAicGraph_s1"):
        report = npuscope.manycore_run(
            "binaries",
            specialization=name,
            program=7,
            aic_profiling_type=("raw_device_stats", "latency"),
            aic_profiling_out_dir="stats",
        )
        times.append(report.metrics[0].average)
    assert times[0] < times[1]
    names = sorted(path.name for path in Path("stats").iterdir())
    assert names == [
        "aic-profiling-program-7-activation-0-inf-0-QAicGraph-aiccyclecounts.bin",
        "aic-profiling-program-7-activation-0-inf-0-QAicGraph_s1-aiccyclecounts.bin",
        "aic-profiling-program-7-latency.txt",
    ]
    found = npuscope.opstats("stats", qpc="binaries/programqpc.bin")
    assert [tables.network for tables in found.tables] == ["QAicGraph", "QAicGraph_s1"]
    assert found.tables[0].totals.ucycles < found.tables[1].totals.ucycles
    with pytest.raises(UsageError, match="unknown specialization '2'"):
        npuscope.manycore_run("binaries", specialization="2")


def test_inspect_and_compile_list_them(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("manycore", "compile", f"-model={model}", "-aic-binary-dir=binaries")
    assert main((*words, "-network-specialization-config=sizes.json")) == 0
    text = capsys.readouterr().out
    assert "program  1: QAicGraph_s1, x 64x64" in text and "without effect" not in text
    assert main(("inspect", "binaries/programqpc.bin", "--json")) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary["programs"] == ["QAicGraph: x 16x64", "QAicGraph_s1: x 64x64"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "expected a list of 1 to 64 objects"),
        ('{"specializations": []}', "expected a list of 1 to 64 objects"),
        ('{"specializations": [3]}', "expected an object of sizes by name"),
        ('{"specializations": [{"rows": "0"}]}', "expected a size of at least 1"),
        ('{"specializations": [{"rows": 1.5}]}', "expected a size of at least 1"),
        ('{"specializations": [{"rows": true}]}', "expected a size of at least 1"),
    ],
)
def test_a_wrong_config_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "sizes.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message):
        read_config(path)


def test_a_damaged_program_is_named(model: Path) -> None:
    data = bytearray(compiled(model))
    at = data.rindex(b"QAicGraph_s1")
    data[at] ^= 1
    with pytest.raises(FileError, match="damaged"):
        read_programs(bytes(data))
