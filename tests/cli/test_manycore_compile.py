"""`npuscope manycore compile` as a user types it, single dashes and all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npuscope
from many_core.nets import convolutions, encoder, integer_net
from models import conv_net, to_tflite
from npuscope.cli.drive import perform
from npuscope.cli.main import main
from npuscope.cli.parser import build_parser
from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.families.many_core.container import read_program
from npuscope.families.many_core.layout import Layout


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.onnx"
    path.write_bytes(encoder())
    return path


def _run(*words: str) -> int:
    return perform(build_parser("manycore").parse_args(["manycore", "compile", *words]))


def _layout(folder: str = "binaries") -> Layout:
    return read_program(Path(folder, "programqpc.bin").read_bytes()).layout


def test_the_command_of_the_guide(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("-model=model.onnx", "-aic-binary-dir=./binaries", "-stats-level=70") == 0
    layout = _layout()
    assert (layout.stats_level, layout.cores, layout.network) == (70, 16, "QAicGraph")
    first, second = capsys.readouterr().out.splitlines()[:2]
    ops = sum(len(group) for core in layout.specializations[0].ops for group in core)
    assert first == f"QAicGraph: {ops:,} ops on 16 cores in binaries/programqpc.bin"
    assert second == "machine  cloudai100 at 1284 MHz, stats level 70"
    assert sorted(path.name for path in Path("binaries").iterdir()) == ["programqpc.bin"]


SINGLE = (
    *("-model=model.onnx", "-aic-binary-dir=binaries", "-stats-level=100", "-stats-batchsize=8"),
    *("-ddr-stats", "-aic-pmu-recipe=KernelUtil", "-aic-num-cores=2"),
)
DOUBLE = (
    *("--model", "model.onnx", "--binary-dir", "other", "--stats-level", "100"),
    *("--stats-batchsize", "8", "--ddr-stats", "--pmu-recipe", "KernelUtil", "--cores", "2"),
)


def test_both_spellings_mean_the_same(model: Path) -> None:
    assert _run(*SINGLE) == _run(*DOUBLE) == 0
    assert Path("binaries/programqpc.bin").read_bytes() == Path("other/programqpc.bin").read_bytes()
    layout = _layout()
    assert (layout.stats_batch, layout.ddr_stats, layout.cores) == (8, True, 2)
    assert layout.pmu.recipe == "KernelUtil" and layout.pmu.events[0] == 0x100


def test_level_40_is_the_default(model: Path) -> None:
    _run("-model=model.onnx", "-aic-binary-dir=binaries", "-aic-pmu-events=3F,70,200")
    assert _layout().stats_level == 40
    assert _layout().pmu.events == (0x3F, 0x70, 0x200)


def test_warnings_and_metrics_come_on_request(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.write_bytes(convolutions())
    words = ("-model=model.onnx", "-aic-binary-dir=b", "-aic-num-cores=4", "-stats-level=60")
    _run(*words)
    quiet = capsys.readouterr().out
    assert "note     level 60 collects what level 50 does" in quiet
    assert "warning" not in quiet and "barriers" not in quiet
    _run(*words, "-aic-perf-warnings", "-aic-perf-metrics")
    told = capsys.readouterr().out
    assert "warning  out: FullyConnected uses 1 of 4 cores" in told
    assert "port 100 Host_IO_Port of device 0: 6.00 KB" in told
    assert "MC wr KB" in told and "constants" in told and "MACs" in told


def test_json_has_the_figures(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.write_bytes(integer_net())
    _run("-model=model.onnx", "-aic-binary-dir=b", "--cores", "2", "--devices", "2", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "npuscope/manycore-compile/1"
    assert (found["cores"], found["devices"], found["stats_level"]) == (2, 2, 40)
    assert found["program_uuid"] == _layout("b").program_uuid
    assert found["ops"]["aicendcyclestats"] == 2 * 2 * 3
    assert len(found["metrics"]["cores"]) == 4
    assert found["inputs"][0]["dtype"] == "int8"


def test_an_older_program_is_replaced_as_a_whole(model: Path) -> None:
    words = ("-model=model.onnx", "-aic-binary-dir=b")
    _run(*words)
    before = Path("b/programqpc.bin").read_bytes()
    Path("b/mine.txt").write_text("stays")
    _run(*words, "-stats-level=70")
    assert Path("b/programqpc.bin").read_bytes() != before
    assert sorted(path.name for path in Path("b").iterdir()) == ["mine.txt", "programqpc.bin"]


def test_what_if_reaches_the_machine(model: Path) -> None:
    _run("-model=model.onnx", "-aic-binary-dir=b", "--set", "clocks.core_mhz=1000")
    assert _layout("b").core_hz == 1_000_000_000


@pytest.mark.parametrize(
    ("words", "kind", "text"),
    [
        (("-aic-pmu-recipe=X",), UsageError, "-aic-pmu-recipe: unknown recipe 'X'"),
        (("-aic-pmu-recipe=AxiRd", "-aic-pmu-events=3"), UsageError, "-aic-pmu-recipe, -aic-pmu"),
        (("-aic-pmu-events=1,2,3,4,5,6,7,8,9",), UsageError, "-aic-pmu-events: 9 events"),
        (
            ("-ddr-stats", "-stats-level=30"),
            UsageError,
            "-ddr-stats: DDR traffic needs",
        ),
        (("-stats-level=high",), UsageError, "argument -stats-level/--stats-level: invalid int"),
        (("-aic-num-cores=99",), UsageError, "-aic-num-cores: 99 cores: cloudai100 has 1 to 16"),
        (("--set", "cores.count"), UsageError, "--set: expected KEY=VALUE, found 'cores.count'"),
        (("--machine", "x"), UsageError, "--machine: unknown machine 'x'"),
        (("-aic-binary-dir=model.onnx",), FileError, "model.onnx: is a file, expected a folder"),
        (("-model=none.onnx",), FileError, "none.onnx: no such file"),
    ],
)
def test_wrong_words_get_one_sentence(
    model: Path, words: tuple[str, ...], kind: type[NpuscopeError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        _run("-model=model.onnx", "-aic-binary-dir=b", *words)
    assert str(caught.value).startswith(text)
    assert not Path("b").exists()


def test_what_a_compiler_wrote_is_timed_as_its_model_is(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of `compile -o`, that of `manycore compile`, and the container itself."""
    machine = ("--machine", "cloudai100")
    slow = ("--set", "clocks.core_mhz=700")
    assert main(["compile", "model.onnx", *machine, "-o", "whole"]) == 0
    assert main(["manycore", "compile", "-model=model.onnx", "--cores", "2", "-o", "two"]) == 0
    assert main(["compile", "model.onnx", *machine, *slow, "-o", "slow"]) == 0
    expected = npuscope.estimate("model.onnx", machine="cloudai100")
    assert npuscope.estimate("whole").total_ms == expected.total_ms
    assert npuscope.estimate("whole/programqpc.bin").total_ms == expected.total_ms
    best = npuscope.manycore_setups("model.onnx", cores=2, copies=1, batch=1, in_flight=1).best
    assert npuscope.estimate("two").total_ms == best.latency_ms
    capsys.readouterr()
    assert main(["explain", "whole"]) == 0
    assert " ms, bound by " in capsys.readouterr().out.splitlines()[0]
    assert main(["estimate", "slow"]) == 2
    assert "was compiled for another machine" in capsys.readouterr().err
    assert main(["estimate", "slow", *machine, *slow]) == 0
    model.unlink()
    with pytest.raises(FileError, match="the model of the program is no longer there"):
        npuscope.estimate("whole")


def test_the_batch_of_stats_is_explained_and_divides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tflite").write_bytes(to_tflite(conv_net()))
    (tmp_path / "stats").mkdir()
    compiled = "manycore compile -model=net.tflite -aic-binary-dir=bin -stats-batchsize=4"
    run = "manycore run --test-data=bin --aic-profiling-type=raw_device_stats"
    assert main(compiled.split()) == 0
    text = capsys.readouterr().out
    assert "a run counts as 4 inferences" in text
    assert "The inputs have a batch of 1: a run computes 1, not 4" in text
    assert main([*run.split(), "--aic-profiling-out-dir=stats"]) == 0
    tables = "opstats --qpc bin/programqpc.bin --input-dir stats --output-dir . --summary --json"
    capsys.readouterr()
    assert main(tables.split()) == 0
    told = capsys.readouterr().out
    (summary,) = tmp_path.glob("*summary*")
    assert "ucycles/inf: (" in summary.read_text()
    assert '"inference_ucycles": ' in told


def test_a_container_is_listed_core_by_core(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manycore", "compile", "-model=model.onnx", "--cores", "2", "-o", "two"]) == 0
    program = read_program(Path("two", "programqpc.bin").read_bytes())
    capsys.readouterr()
    for source in ("two/programqpc.bin", "two"):
        assert main(["disasm", source]) == 0
        text = capsys.readouterr().out
        ops = program.devices[0].all_ops()
        listed = [line for line in text.splitlines() if line and line[0] != ";"]
        assert len(listed) == len(ops)
        assert all(any(op.info.name in line for line in listed) for op in ops[:20])
    assert main(["disasm", "two/programqpc.bin", "--json"]) == 0
    blobs = json.loads(capsys.readouterr().out)["blobs"]
    assert [blob["name"] for blob in blobs] == ["QAicGraph core 0", "QAicGraph core 1"]
    first = program.devices[0].ops[0][0][0]
    assert blobs[0]["groups"][0]["ops"][0]["kind"] == first.info.kind
