"""Files that contradict themselves: one sentence and exit code 3 from every verb, never a bug."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema

from fuzz.own_models import onnx_with_functions
from models import TfliteWriter, conv_net, dense_net, save, to_onnx, to_tflite
from npuscope import child
from npuscope.cli.main import main
from npuscope.errors import ModelError
from npuscope.files.load import load_model

VERBS = (
    "estimate {file}",
    "estimate {file} --json",
    "explain {file}",
    "lint {file}",
    "compile {file} -o {out}",
    "profile {file}",
    "validate {file}",
    "bisect {file}",
    "fix {file} -o {out}{ending}",
    "fix {file} --all",
    "inspect {file} --json",
    "quantize {file} --data random -o {out}{ending}",
    "export {file} --netron {out}.onnx",
    "gate {file} --max total_ms=1",
    "compare {file} --b generation=2.2",
)


def recursive() -> bytes:
    model = onnx.load_from_string(onnx_with_functions())
    (function,) = model.functions
    function.node.append(onnx.helper.make_node("Inner", ["a"], ["again"], domain="own"))
    return bytes(model.SerializeToString())


def doubled() -> bytes:
    model = onnx.load_from_string(onnx_with_functions())
    model.functions.append(model.functions[0])
    model.functions[1].node[0].op_type = "Sigmoid"
    return bytes(model.SerializeToString())


def standing_for_a_standard_op() -> bytes:
    """A function of the name of an op, which stands for something else and cannot be expanded."""
    model = onnx.load_from_string(onnx_with_functions())
    (function,) = model.functions
    function.name = model.graph.node[0].op_type = "Relu"
    function.domain = model.graph.node[0].domain = ""
    return bytes(model.SerializeToString())


def without_opset() -> bytes:
    model = onnx.load_from_string(to_onnx(conv_net()))
    del model.opset_import[:]
    return bytes(model.SerializeToString())


def with_conflicting_shapes() -> bytes:
    model = onnx.load_from_string(onnx_with_functions())
    tensor = model.graph.output[0].type.tensor_type
    tensor.shape.dim[1].dim_value = 9
    return bytes(model.SerializeToString())


def changed(change: Callable[[Any], None], data: bytes | None = None) -> bytes:
    model = schema.ModelT.InitFromPackedBuf(bytearray(data or to_tflite(conv_net())))
    change(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _metadata_of_nothing(model: Any) -> None:
    entry = schema.MetadataT()
    entry.name, entry.buffer = b"mine", 999
    model.metadata = [entry]


def _scales_of_an_activation(model: Any) -> None:
    graph = model.subgraphs[0]
    tensor = graph.tensors[graph.operators[0].outputs[0]]
    count = tensor.shape[-1]
    tensor.quantization.scale = [0.1 + number for number in range(count)]
    tensor.quantization.zeroPoint = [0] * count
    tensor.quantization.quantizedDimension = len(tensor.shape) - 1


def _custom_name_that_is_no_text(model: Any) -> None:
    model.operatorCodes[0].customCode = b"\xff\xfe"
    model.operatorCodes[0].builtinCode = schema.BuiltinOperator.CUSTOM
    model.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    model.subgraphs[0].operators[0].builtinOptions = None


def _constant_of_another_size(model: Any) -> None:
    constants = [t for t in model.subgraphs[0].tensors if t.buffer]
    unused = constants[0].__class__()
    unused.name, unused.shape, unused.buffer = b"unused", [1, 34, 34, 4], constants[0].buffer
    unused.type = constants[0].type
    model.subgraphs[0].tensors.append(unused)


def sum_with_scales_per_channel() -> bytes:
    w = TfliteWriter()
    x = w.tensor("x", (1, 4, 4, 2), scale=0.1)
    k = w.constant("k", np.ones((1, 4, 4, 2), np.int8), scale=(0.1, 0.2), axis=3)
    y = w.tensor("y", (1, 4, 4, 2), scale=0.2)
    w.op("ADD", [x, k], [y])
    return w.finish([x], [y])


FILES: dict[str, Callable[[], bytes]] = {
    "recursive.onnx": recursive,
    "doubled.onnx": doubled,
    "standard.onnx": standing_for_a_standard_op,
    "opset.onnx": without_opset,
    "shapes.onnx": with_conflicting_shapes,
    "metadata.tflite": lambda: changed(_metadata_of_nothing),
    "scales.tflite": lambda: changed(_scales_of_an_activation),
    "name.tflite": lambda: changed(_custom_name_that_is_no_text),
    "constant.tflite": lambda: changed(_constant_of_another_size),
    "sum.tflite": sum_with_scales_per_channel,
}


@pytest.mark.parametrize("name", FILES)
def test_no_verb_calls_it_a_bug(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = save(tmp_path, name, FILES[name]())
    for number, words in enumerate(VERBS):
        out = tmp_path / f"out{number}"
        places = {"file": file, "out": out, "ending": file.suffix}
        code = main([word.format(**places) for word in words.split()])
        said = capsys.readouterr()
        assert code in (0, 1, 2, 3), f"{words}: {said.err}"
        assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (recursive, "the file's own functions cannot be expanded: "),
        (lambda: changed(_scales_of_an_activation), " scales, but values that a network computes"),
    ],
)
def test_what_is_said(make: Callable[[], bytes], message: str, tmp_path: Path) -> None:
    name = "file.tflite" if make is not recursive else "file.onnx"
    with pytest.raises(ModelError) as caught:
        load_model(save(tmp_path, name, make()))
    assert message in caught.value.message


def test_fix_of_a_file_without_an_opset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = save(tmp_path, "net.onnx", without_opset())
    assert main(["fix", str(file)]) == 3
    assert capsys.readouterr().err == (
        f"npuscope: {file}: the file does not state the opset of its standard ops, so edits have "
        "no version to follow\n"
        "  hint: add it: model.opset_import.append(onnx.helper.make_opsetid('', 17))\n"
    )


@pytest.mark.parametrize("kind", [{"a": 1}, ["SW"], None, 7])
def test_kinds_that_are_no_text(kind: object, tmp_path: Path) -> None:
    saved = {"schema": "npuscope/program/1", "epochs": [{"kind": kind}, {"kind": "SW"}]}
    (tmp_path / "program.json").write_text(json.dumps(saved))
    assert main(["inspect", str(tmp_path / "program.json")]) in (0, 3)


@pytest.mark.parametrize("words", ["estimate {file}", "fix {file}", "estimate none.tflite"])
@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- 2>&-"])
def test_closed_streams(words: str, closed: str, tmp_path: Path) -> None:
    file = save(tmp_path, "net.tflite", to_tflite(dense_net()))
    command = shlex.join([*child.command(), "-m", "npuscope", *words.format(file=file).split()])
    done = subprocess.run(
        ["sh", "-c", f"{command} {closed}"],
        check=False,
        stdout=subprocess.PIPE,
        env=child.environment(),
    )
    expected = 74 if ">&- 2" in closed and "<" not in closed else 3 if "none" in words else 0
    assert done.returncode == expected
