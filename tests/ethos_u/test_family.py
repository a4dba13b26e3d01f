"""The family behind the verbs, on a file that was built in code."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import npuscope
from ethos_u.networks import (
    CONFIGURATIONS,
    SHAPE_IN,
    SHAPE_OUT,
    Convolution,
    executorch_plan,
    executorch_program,
    vela_file,
)
from ethos_u.streams import U55_128
from models import Net, conv_net, save, to_onnx, to_tflite
from models_onnx import OnnxWriter
from models_onnx_ops import CASES, op_model
from models_tflite import TfliteWriter
from npuscope.advice.gate import is_bytes
from npuscope.cli.main import main
from npuscope.errors import FileError, ModelError, UsageError
from npuscope.families.ethos_u.build import read_build
from npuscope.families.ethos_u.container import read_vela
from npuscope.families.ethos_u.debug_database import source_ops
from npuscope.families.ethos_u.executorch import read_program
from npuscope.families.ethos_u.family import FAMILY
from npuscope.families.ethos_u.files import assemble, disassemble
from npuscope.families.ethos_u.machine import load_machine, memory_modes, systems
from npuscope.families.ethos_u.network import Network, executed
from npuscope.families.ethos_u.refusals import row_of
from npuscope.families.ethos_u.stream import stream_bytes
from npuscope.families.ethos_u.vela import VelaOptions, run_vela, system_config, vela_command
from npuscope.files.load import read_model
from npuscope.program.model import EpochKind
from quantizing.test_litert import float_net as float_tflite

pytest.importorskip("ai_edge_litert", reason="ai_edge_litert is not installed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return vela_file(Convolution(U55_128), tmp_path)


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda one: one.machine)
def test_a_file_runs_on_npu_and_cpu(configuration, tmp_path: Path) -> None:
    layer = Convolution(configuration)
    network = Network(read_vela(vela_file(layer, tmp_path).read_bytes()))
    image = np.random.default_rng(4).integers(-128, 128, SHAPE_IN).astype(np.int8)
    results = network.run({"image": image[None]})
    expected = 0.5 * (layer.expected(image).astype(np.float32) + 3)
    assert np.array_equal(results["real"], expected.reshape(1, *SHAPE_OUT))


def test_verbs_read_the_file_without_a_machine(path: Path) -> None:
    profile = npuscope.estimate(path)
    assert profile.machine.name == "ethos-u55-128"
    assert [part.kind for part in profile.epochs] == [EpochKind.HW, EpochKind.SW]
    assert profile.figures["cpu_operators"] == 1
    findings = [finding.rule for finding in npuscope.explain(path).findings]
    assert "ADV-ETHOS-CPU" in findings


def test_counts_are_no_bytes(path: Path) -> None:
    """For `gate`: every figure of the family has its unit."""
    values = FAMILY.read(path, {}).figures
    assert {name for name in values if is_bytes(name, values)} == {
        name for name in values if name.endswith("_bytes")
    }


def test_the_clock_is_a_what_if(path: Path) -> None:
    slow, fast = (
        FAMILY.read(path, {"overrides": {"clock_mhz": mhz}}).epochs[0].ms for mhz in (100.0, 400.0)
    )
    assert slow == pytest.approx(4 * fast)


def test_the_command_line_takes_changed_values(path: Path, capsys) -> None:
    assert main(["estimate", str(path), "--set", "clock_mhz=100"]) == 0
    assert "100 MHz" in capsys.readouterr().out


def test_a_file_stays_on_the_machine_that_it_was_compiled_for(path: Path, capsys) -> None:
    """A machine that somebody names must be that of the file; one that nobody names is."""
    assert main(["estimate", str(path)]) == 0
    assert "machine  ethos-u55-128" in capsys.readouterr().out
    assert main(["estimate", str(path), "--machine", "ethos-u55-128"]) == 0
    for verb in ("estimate", "explain", "profile", "gate", "compare"):
        limits = ["--max", "total_ms=9"] if verb == "gate" else []
        for other in ("ethos-u85-512", "stm32n6", "cloudai100"):
            capsys.readouterr()
            assert main([verb, str(path), *limits, "--machine", other]) == 3, (verb, other)
            told = capsys.readouterr().err
            assert f"made for ethos-u55-128, not for {other}" in told
            assert "leave --machine out" in told
    assert main(["compare", str(path), "--machines", "ethos-u55-128,stm32n6"]) == 3
    with pytest.raises(FileError, match="not for stm32n6"):
        npuscope.estimate(path, machine="stm32n6")


def test_a_build_and_a_saved_run_stay_on_their_machine(tmp_path: Path, capsys) -> None:
    model = save(tmp_path, "net.onnx", to_onnx(conv_net()))
    build, run = tmp_path / "build", tmp_path / "run.json"
    assert main(["compile", str(model), "-o", str(build), "-q"]) == 0
    assert main(["profile", str(model), "--save", str(run), "-q"]) == 0
    for source in (build, run, build / "network.c"):
        assert main(["gate", str(source), "--max", "total_ms=9", "--machine", "stm32n6"]) == 0
        for other in ("ethos-u55-256", "cloudai100"):
            capsys.readouterr()
            words = ["gate", str(source), "--max", "total_ms=9", "--machine", other]
            assert main(words) == 3
            assert f", not for {other}" in capsys.readouterr().err


def test_text_of_the_stream_assembles_to_the_same_bytes(path: Path) -> None:
    (part,) = disassemble(path).values()
    stream = next(iter(read_build(path, {}).file.offloads.values())).stream
    assert assemble(part.text(), "", "").data == stream_bytes(stream)


def test_a_damaged_file_is_refused(path: Path) -> None:
    data = path.read_bytes()
    rng = np.random.default_rng(6)
    inputs = {"image": np.zeros((1, *SHAPE_IN), np.int8)}
    for _ in range(300):
        broken = bytearray(data)
        for place in rng.integers(8, len(data), 3):
            broken[place] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(FileError, ModelError):
            Network(read_vela(bytes(broken))).run(inputs)
    for end in range(16, len(data), 97):
        with pytest.raises((FileError, ModelError)):
            Network(read_vela(data[:end])).run(inputs)


def test_the_debug_database_names_source_operators() -> None:
    text = """<debug><table name="cmdstream">
<![CDATA[
"id"
4
]]></table><table name="queue"><![CDATA[
"offset","cmdstream_id","optimised_id"
336,4,9
400,4,8
]]></table><table name="optimised"><![CDATA[
"id","source_id","operator"
9,2,"Conv2D"
8,7,"Relu"
]]></table><table name="source"><![CDATA[
"id","operator","ext_key"
2,"Conv2D",5
]]></table></debug>"""
    assert source_ops(text) == {(0, 336): 5}


def test_a_delegate_of_executorch_runs(tmp_path: Path) -> None:
    layer = Convolution(U55_128)
    path = tmp_path / "net.pte"
    path.write_bytes(executorch_program(layer))
    image = np.random.default_rng(5).integers(-128, 128, SHAPE_IN).astype(np.int8)
    results = Network(read_build(path, {}).file).run({"inputs_0_0": image})
    assert np.array_equal(results["outputs_0_0"].reshape(SHAPE_OUT), layer.expected(image))
    assert npuscope.estimate(path).machine.name == "ethos-u55-128"
    data = path.read_bytes()
    for end in range(120, len(data) - 32, 61):
        with pytest.raises(FileError):
            read_program(data[:end])


def test_every_kind_of_file_is_recognised(path: Path, tmp_path: Path) -> None:
    layer = Convolution(U55_128)
    (part,) = disassemble(path).values()
    files = {
        "vela_tflite": path.read_bytes(),
        "executorch": executorch_program(layer),
        "ethos_u_stream": stream_bytes(layer.stream()),
        "ethos_u_listing": part.text().encode(),
    }
    assert files.keys() == {row.kind for row in FAMILY.formats()}
    for kind, data in files.items():
        file = tmp_path / "file"
        file.write_bytes(data)
        assert npuscope.inspect(file).kind == kind


def test_variables_are_inputs_and_outputs(tmp_path: Path) -> None:
    """The stream reads what the network kept, and its result is kept."""
    layer = Convolution(U55_128)
    path = vela_file(layer, tmp_path)
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    (graph,) = model.subgraphs
    handle = schema.TensorT()
    handle.name, handle.shape, handle.type = b"handle", [], schema.TensorType.RESOURCE
    graph.tensors.append(handle)
    (image,), result, place = graph.inputs, graph.operators[0].outputs[0], len(graph.tensors) - 1
    rows = []
    for name, inputs, outputs in (
        ("VAR_HANDLE", [], [place]),
        ("READ_VARIABLE", [place], [image]),
        ("ASSIGN_VARIABLE", [place, result], []),
    ):
        code, op = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        model.operatorCodes.append(code)
        op.opcodeIndex, op.inputs, op.outputs = len(model.operatorCodes) - 1, inputs, outputs
        rows.append(op)
    rows[0].builtinOptionsType = schema.BuiltinOptions.VarHandleOptions
    rows[0].builtinOptions = schema.VarHandleOptionsT()
    rows[0].builtinOptions.sharedName = b"state"
    graph.operators, graph.inputs = [*rows[:2], *graph.operators, rows[2]], []
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    values = np.random.default_rng(3).integers(-128, 128, (1, *SHAPE_IN)).astype(np.int8)
    results = executed(read_vela(bytes(builder.Output())), None, {"image": values})
    assert list(results) == ["real", "result"]
    assert np.array_equal(results["result"][0], layer.expected(values[0]))
    with pytest.raises(ModelError, match="0 inputs on one side"):
        executed(read_vela(bytes(builder.Output())), None, {})


# --- The compiler as a child ---


def _fake_vela(tmp_path: Path, body: str) -> str:
    script = tmp_path / "vela"
    script.write_text(f"#!{sys.executable}\nimport sys, os, signal, pathlib\n{body}\n")
    script.chmod(0o755)
    return str(script)


def test_a_compiler_that_crashes_or_refuses_is_reported(tmp_path: Path) -> None:
    machine = load_machine("ethos-u55-128")
    crash = _fake_vela(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ModelError, match="Vela crashed"):
        run_vela(b"", machine, VelaOptions(crash))
    refusal = _fake_vela(tmp_path, "sys.exit('Error: no such operator')")
    with pytest.raises(ModelError, match="no such operator"):
        run_vela(b"", machine, VelaOptions(refusal))
    with pytest.raises(UsageError):
        run_vela(b"", machine, VelaOptions(str(tmp_path / "nowhere")))


def test_the_compiler_is_asked_for_the_machine(tmp_path: Path) -> None:
    body = """
out = pathlib.Path(sys.argv[sys.argv.index('--output-dir') + 1]); out.mkdir()
(out / 'network_vela.tflite').write_bytes(' '.join(sys.argv[2:]).encode())
(out / 'network_summary_x.csv').write_text('a,cycles_total\\n1,42.5\\n')
"""
    output = run_vela(b"x", load_machine("ethos-u65-512"), VelaOptions(_fake_vela(tmp_path, body)))
    words = output.file.decode()
    assert "--accelerator-config ethos-u65-512" in words
    assert "--system-config Ethos_U65_High_End --memory-mode Dedicated_Sram" in words
    assert output.cycles == 42.5


def test_reasons_of_the_compiler_are_read(tmp_path: Path) -> None:
    body = """
out = pathlib.Path(sys.argv[sys.argv.index('--output-dir') + 1]); out.mkdir()
(out / 'network_vela.tflite').write_bytes(b'x')
print("Warning (supported operators) operator: SQUARE, ofm: 'square'")
print("Reason: Unsupported opType")
print("Warning (supported operators) operator: CONV_2D, ofm: 'it's'")
print("Reason: Unsupported kernel stride: 5, 5")
print("Kernel stride must be in the range (1,3).")
"""
    output = run_vela(b"x", load_machine("ethos-u55-128"), VelaOptions(_fake_vela(tmp_path, body)))
    assert output.reasons == {
        "square": "Unsupported opType",
        "it's": "Unsupported kernel stride: 5, 5 - Kernel stride must be in the range (1,3).",
    }


@pytest.mark.parametrize(
    ("operator", "reason", "rule"),
    [
        ("SQUARE", "Unsupported opType", "OPERATOR"),
        ("DEQUANTIZE", "Unsupported opType", "CPU"),
        ("ADD", "Operation has mismatching quantization parameters", "QUANTIZATION"),
        ("PAD", "Unsupported zeroPoint 3 for dataType: Int32", "QUANTIZATION"),
        ("CONV_2D", "The absolute sum of weight-tensor elements: 9 exceeds limit: 8", "WEIGHTS"),
        ("RESHAPE", "Shape tensor must be constant", "WEIGHTS"),
        ("LOG", "Operation has tensor with unsupported DataType Float32 (kernel)", "TYPE"),
        ("ADD", "32-bit feature-maps are not supported.", "TYPE"),
        ("CONV_2D", "Unsupported kernel stride: 5, 5", "WINDOW"),
        ("TRANSPOSE_CONV", "unsupported stride combination: (3,3)", "WINDOW"),
        (
            "RESIZE_BILINEAR",
            "operation has unsupported scale-factor=3",
            "WINDOW",
        ),
        ("STRIDED_SLICE", "StridedSlice with unsupported stride axis", "SHAPE"),
        ("MEAN", "Reduced axis is too large: 70000", "SHAPE"),
        ("SOFTMAX", "Unsupported ifmShape: (1,1), W * H = 70000", "SHAPE"),
        ("TRANSPOSE", "Unsupported transpose-shape", "SHAPE"),
        ("LESS", "", "CPU"),
        ("LESS", "something that no version has said yet", "CPU"),
    ],
)
def test_every_reason_has_a_rule(operator: str, reason: str, rule: str) -> None:
    assert row_of(operator, reason).id == f"ADV-ETHOS-{rule}"


@pytest.mark.parametrize(
    ("name", "system", "mode", "lines"),
    [
        ("ethos-u55-256", "Alif_Ensemble_HP", "", ("OffChipFlash_clock_scale=0.121",)),
        ("ethos-u65-256", "NXP_iMX93", "", ("axi1_port=Dram", "Dram_clock_scale=0.234375")),
        ("ethos-u85-256", "Alif_Ensemble_U85", "Shared_Sram",
         ("Sram_ports_used=2", "Sram_clock_scale=1.0", "OffChipFlash_clock_scale=0.121")),
    ],
)  # fmt: skip
def test_a_board_in_words_of_the_compiler(name: str, system: str, mode: str, lines) -> None:
    text = system_config(load_machine(name, system=system, memory_mode=mode)).splitlines()
    assert set(lines) <= set(text)
    assert f"[System_Config.{system}]" in text


def test_the_installed_package_is_a_command(tmp_path: Path, monkeypatch) -> None:
    """Its module `vela` alone does nothing when it is run."""
    package = tmp_path / "ethosu" / "vela"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "vela.py").touch()
    (package / "__main__.py").write_text("print('started')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("ethosu", "ethosu.vela"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    words = vela_command()
    assert subprocess.run(words, capture_output=True, text=True).stdout == "started\n"


def test_a_network_of_onnx_is_written_for_vela(path: Path, tmp_path: Path) -> None:
    body = f"""
out = pathlib.Path(sys.argv[sys.argv.index('--output-dir') + 1]); out.mkdir()
(out / 'network_vela.tflite').write_bytes(pathlib.Path({str(path)!r}).read_bytes())
"""
    model = save(tmp_path, "net.onnx", to_onnx(conv_net()))
    options = {"machine": "ethos-u55-128", "vela": _fake_vela(tmp_path, body)}
    build = FAMILY.compile(model, options)
    assert read_model(tmp_path / "net.tflite", build.written).ops
    assert any(name.startswith("Conv:") for name in build.names)
    FAMILY.write(build, tmp_path / "out", options)
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"net.tflite", "net_vela.tflite"} <= files


def test_networks_of_floats_are_refused_in_one_sentence(tmp_path: Path) -> None:
    model = save(tmp_path, "net.onnx", op_model(CASES["Sigmoid"], quantized=False))
    with pytest.raises(ModelError, match="quantized networks only"):
        FAMILY.compile(model, {"machine": "ethos-u55-128"})


def test_layers_of_floats_are_refused_in_tflite_too(tmp_path: Path) -> None:
    """Vela takes such a file, and leaves all of it to the CPU."""
    model = float_tflite(tmp_path)
    with pytest.raises(ModelError, match="quantized networks only") as caught:
        FAMILY.compile(model, {"machine": "ethos-u55-128"})
    assert "npuscope quantize MODEL -o OUT" in caught.value.hint


_CHANNELS_FIRST = (1, SHAPE_IN[2], *SHAPE_IN[:2])


@pytest.mark.parametrize(
    ("order", "reordered"), [((0, 1, 2, 3), True), ((0, 2, 3, 1), False)], ids=["first", "last"]
)
def test_what_the_runtime_does_around_a_delegate(order, reordered, tmp_path: Path) -> None:
    plan = executorch_plan(["cortex_m::quantize_per_tensor"], _CHANNELS_FIRST, order)
    path = tmp_path / "net.pte"
    path.write_bytes(plan + bytes(-len(plan) % 16) + executorch_program(Convolution(U55_128))[112:])
    names = [part.name for part in npuscope.estimate(path).epochs]
    copies = ["copy of argument 0"] if reordered else []
    assert names == ["cortex_m::quantize_per_tensor", *copies, "CONV"]
    rules = [finding.rule for finding in npuscope.explain(path).findings]
    assert ("ADV-ETHOS-LAYOUT" in rules) == reordered
    data, rng = path.read_bytes(), np.random.default_rng(7)
    for _ in range(300):
        broken = bytearray(data)
        for place in rng.integers(8, len(plan), 3):
            broken[place] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(FileError):
            read_program(bytes(broken))


def test_an_offload_may_leave_its_results_in_the_arena(path: Path) -> None:
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    operators = model.subgraphs[0].operators
    first = schema.OperatorT()
    first.opcodeIndex, first.inputs, first.outputs = 0, operators[0].inputs, []
    model.subgraphs[0].operators = [first, *operators]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    image = np.zeros((1, *SHAPE_IN), np.int8)
    expected = Network(read_vela(path.read_bytes())).run({"image": image})
    results = Network(read_vela(bytes(builder.Output()))).run({"image": image})
    assert np.array_equal(results["real"], expected["real"])


@pytest.mark.parametrize(
    ("pads", "hits"), [((0, 0, 1, 0), 0), ((0, 0, 0, 1), 1), ((1, 1, 0, 0), 1)]
)
def test_mirrored_channels_and_batches_are_found(
    pads: tuple[int, ...], hits: int, tmp_path: Path
) -> None:
    from npuscope.families.ethos_u.rules import mirrored_channels

    writer = TfliteWriter()
    image = writer.tensor("x", (2, 4, 4, 4), "int8", 0.1)
    shape = tuple(n + pad for n, pad in zip((2, 4, 4, 4), pads, strict=True))
    result = writer.tensor("y", shape, "int8", 0.1)
    sides = writer.constant("p", np.array([(pad, 0) for pad in pads], np.int32))
    writer.op("MIRROR_PAD", [image, sides], [result])
    graph = read_model(tmp_path / "mirror.tflite", writer.finish([image], [result]))
    assert len(list(mirrored_channels(graph, "ethos-u55-64"))) == hits


@pytest.mark.parametrize(
    ("machine", "dtype", "values"),
    [
        ("ethos-u55-64", "uint8", ["clips bytes as signed"]),
        ("ethos-u65-512", "uint8", ["clips bytes as signed"]),
        ("ethos-u85-256", "uint8", []),
        ("ethos-u55-64", "int8", []),
    ],
)
def test_operators_that_vela_changes_are_found(
    machine: str, dtype: str, values: list[str], tmp_path: Path
) -> None:
    writer = TfliteWriter()
    image = writer.tensor("x", (1, 3, 4, 5), dtype, 0.1)
    result = writer.tensor("y", (1, 3, 5, 4), dtype, 0.1)
    order = writer.constant("p", np.array([0, 1, 3, 2], np.int32))
    writer.op("TRANSPOSE", [image, order], [result])
    path = save(tmp_path, "turn.tflite", writer.finish([image], [result]))
    findings = npuscope.lint(path, machine=machine)
    found = [f.evidence["value"] for f in findings if f.rule == "LINT-ETHOS-VALUES"]
    assert found == values


def test_transposes_between_layouts_are_a_finding(tmp_path: Path) -> None:
    pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")
    net = Net((1, 96, 96, 16))
    net.conv(16)
    first_path = save(tmp_path, "nchw.onnx", to_onnx(net))
    found = npuscope.explain(first_path, machine="ethos-u55-128")
    first = found.findings[0]
    assert first.rule == "ADV-ETHOS-TRANSPOSES"
    assert 0.3 * found.profile.total_ms < (first.gain_ms or 0.0) < found.profile.total_ms
    last_path = save(tmp_path, "nhwc.tflite", to_tflite(net))
    rules = [one.rule for one in npuscope.explain(last_path, machine="ethos-u55-128").findings]
    assert "ADV-ETHOS-TRANSPOSES" not in rules


def _nearest(rows: int, target: int) -> bytes:
    return _network("RESIZE_NEAREST_NEIGHBOR", (1, rows, 5, 3), (1, target, 5, 3), [target, 5])


def _padded_pool() -> bytes:
    """A maximum, then more channels."""
    writer = TfliteWriter()
    image, largest = (writer.tensor(name, (1, 6, 6, 4), "int8", 0.1) for name in "xy")
    result = writer.tensor("z", (1, 6, 6, 6), "int8", 0.1)
    writer.op("MAX_POOL_2D", [image], [largest], filterHeight=2, filterWidth=2)
    sides = writer.constant("p", np.array([(0, 0), (0, 0), (0, 0), (0, 2)], np.int32))
    writer.op("PAD", [largest, sides], [result])
    return writer.finish([image], [result])


def _network(
    kind: str,
    shape: tuple[int, ...],
    result: tuple[int, ...],
    constant: object,
    dtype: str = "int8",
) -> bytes:
    writer = TfliteWriter()
    x, y = (writer.tensor(n, s, dtype, 0.1) for n, s in (("x", shape), ("y", result)))
    writer.op(kind, [x, writer.constant("c", np.array(constant, np.int32))], [y])
    return writer.finish([x], [y])


@pytest.mark.parametrize(
    ("machine", "data", "said"),
    [
        ("ethos-u85-256", _nearest(4, 8), False),
        ("ethos-u85-256", _nearest(4, 12), False),
        ("ethos-u85-256", _nearest(4, 6), True),
        ("ethos-u55-128", _padded_pool(), False),
        ("ethos-u65-256", _network("REDUCE_MAX", (1, 6, 6, 4), (1, 6, 4), [2]), True),
        ("ethos-u55-128", _network("TRANSPOSE", (1, 4, 5, 6), (1, 5, 4, 6), [0, 2, 1, 3]), False),
    ],
)
def test_what_is_said_of_vela_is_what_its_stream_computes(
    machine: str, data: bytes, said: bool, tmp_path: Path
) -> None:
    """The lint speaks exactly where the execution differs from the reference."""
    path = tmp_path / "network.tflite"
    path.write_bytes(data)
    rules = [finding.rule for finding in npuscope.lint(path, machine=machine)]
    assert ("LINT-ETHOS-VALUES" in rules) is said
    pytest.importorskip("ethosu.vela", reason="Vela is not installed")
    assert npuscope.validate(path, machine=machine).passed is not said


def test_lint_of_onnx_is_of_what_vela_reads(tmp_path: Path) -> None:
    """Unsigned bytes are written as signed ones, which no transpose clips."""
    w = OnnxWriter(17)
    x = w.qdq(w.input("x", (1, 4, 6)), 0.1, 128, "uint8")
    y = w.quantize(w.node("Transpose", x, perm=[0, 2, 1]), 0.1, 128, "uint8")
    w.dequantize(y, 0.1, 128, "uint8", output="y")
    path = save(tmp_path, "turn.onnx", w.finish({"y": None}))
    assert not npuscope.lint(path, machine="ethos-u55-128")


# --- Configurations ---


def _machine_of(system: str) -> str:
    product = next((word.lower() for word in ("U65", "U85") if word in system), "u55")
    if system.startswith("NXP"):
        product = "u65"
    return {"u55": "ethos-u55-128", "u65": "ethos-u65-256", "u85": "ethos-u85-512"}[product]


_FLASH = ("Ethos_U65_Embedded", "Ethos_U85_SYS_Flash_Low", "Ethos_U85_SYS_Flash_High")


@pytest.mark.parametrize("system", systems())
def test_vela_takes_every_system_that_is_listed(system: str, tmp_path: Path) -> None:
    pytest.importorskip("ethosu.vela", reason="Vela is not installed")
    path = tmp_path / "network.tflite"
    path.write_bytes(_padded_pool())
    options = {"machine": _machine_of(system), "system_config": system}
    if system in _FLASH:  # which no arena can be in
        options["memory_mode"] = "Shared_Sram"
    profile = npuscope.estimate(path, **options)
    assert system in profile.machine_words and profile.total_ms > 0


@pytest.mark.parametrize("mode", memory_modes())
def test_vela_takes_every_memory_mode_that_is_listed(mode: str, tmp_path: Path) -> None:
    pytest.importorskip("ethosu.vela", reason="Vela is not installed")
    path = tmp_path / "network.tflite"
    path.write_bytes(_padded_pool())
    assert npuscope.estimate(path, machine="ethos-u65-256", memory_mode=mode).total_ms > 0


_OWN = """
[System_Config.Base]
core_clock=250e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=0.5
Sram_read_latency=16
OffChipFlash_clock_scale=0.25
OffChipFlash_ports_used=2
OffChipFlash_burst_length=64

[System_Config.My_Chip]
inherit=System_Config.Base
OffChipFlash_read_latency=40

[Memory_Mode.All_In_Sram]
const_mem_area=Axi0
arena_mem_area=Axi0
cache_mem_area=Axi0
"""


def test_a_configuration_of_the_user_is_read_and_given_to_vela(tmp_path: Path) -> None:
    own = tmp_path / "own.ini"
    own.write_text(_OWN)
    names = {"system": "My_Chip", "memory_mode": "All_In_Sram", "config": own}
    machine = load_machine("ethos-u55-128", **names)
    assert (machine.clock_mhz, machine.constants, machine.arena) == (250.0, "sram", "sram")
    assert machine.sram.bytes_per_cycle == 4.0 and machine.sram.read_latency_cycles == 16
    external = (machine.external.bytes_per_cycle, machine.external.read_latency_cycles)
    assert external == (4.0, 40) and machine.external.burst_bytes == 64
    pytest.importorskip("ethosu.vela", reason="Vela is not installed")
    path = tmp_path / "network.tflite"
    path.write_bytes(_padded_pool())
    for name in ("ethos-u55-128", "ethos-u85-256"):
        profile = npuscope.estimate(
            path,
            machine=name,
            vela_config=str(own),
            system_config="Base",
            memory_mode="Shared_Sram",
        )
        assert "250 MHz, Base" in profile.machine_words


@pytest.mark.parametrize(
    ("text", "name", "error", "says"),
    [
        (_OWN, "My_Chp", UsageError, "unknown name 'My_Chp'"),
        (_OWN.replace("0.25", "much"), "My_Chip", FileError, "expected a number as offchipflash_"),
        (_OWN.replace("Config.Base\nOff", "Config.My_Chip\nOff"), "My_Chip", FileError, "inherit"),
        (_OWN.replace("axi1_port=OffChipFlash", ""), "My_Chip", FileError, "axi1_port"),
        ("not a file of Vela's", "My_Chip", FileError, "not a configuration file"),
        (
            _OWN.replace("My_Chip", "Ethos_U55_High_End_Embedded"),
            "Ethos_U55_High_End_Embedded",
            UsageError,
            "is known with another",
        ),
    ],
)
def test_a_wrong_configuration_is_refused(
    text: str, name: str, error: type[Exception], says: str, tmp_path: Path
) -> None:
    own = tmp_path / "own.ini"
    own.write_text(text)
    with pytest.raises(error, match=says):
        load_machine("ethos-u55-128", system=name, config=own)
