"""A network.c of ours, read back, computes what the Program computed, bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import models_onnx_moves  # noqa: F401  adds its cases to the table
import npuscope
from compiler.nets import sample
from models import conv_net, dense_net, mobilenet_like, save, to_tflite
from models_onnx_cases import CASES as NETWORKS
from models_onnx_ops import CASES as OPS
from models_onnx_ops import op_model
from npuscope.errors import FileError, ModelError
from npuscope.program.model import JSON_NAME, Call, Program
from npuscope.program.network_c.parse_source import Comment, Function
from npuscope.program.network_c.stated_call import call_comment, stated_call
from npuscope.program.sources import read_program
from npuscope.sim.memory import element_type
from npuscope.sim.run import execute
from npuscope.structs import replace
from program.network_c.nets import HOSTILE, build, kernels, renamed
from program.network_c.test_reader import read

GENERATIONS = ("2.2", "3.0", "4.0", "open")
BUILT = ("network.c", "_ecblobs.h", ".raw")
TFLITE = {"mobilenet": mobilenet_like, "conv": conv_net, "dense": dense_net}
MODELS = [
    *(("op", name) for name, case in OPS.items() if case.opset >= 10),
    *(("onnx", name) for name in NETWORKS),
    *(("tflite", name) for name in TFLITE),
]


def model(kind: str, name: str) -> tuple[str, bytes]:
    if kind == "op":
        return "m.onnx", op_model(OPS[name], quantized=True)
    return (
        ("m.onnx", NETWORKS[name]()) if kind == "onnx" else ("m.tflite", to_tflite(TFLITE[name]()))
    )


def inputs(program: Program) -> dict[str, np.ndarray]:
    rng, buffers = np.random.default_rng(5), program.buffer_map()
    kinds = {name: element_type(buffers[name]) for name in program.inputs}
    return {
        name: rng.integers(0, 120, buffers[name].shape).astype(kind) for name, kind in kinds.items()
    }


@pytest.mark.parametrize(("number", "kind", "name"), [(n, *m) for n, m in enumerate(MODELS)])
def test_equal_outputs(number: int, kind: str, name: str, tmp_path: Path) -> None:
    """Generations take turns, and so do whole folders and bare sources."""
    folder = tmp_path / "build"
    generation = GENERATIONS[number % len(GENERATIONS)]
    try:
        program = npuscope.compile(
            save(tmp_path, *model(kind, name)), folder, generation=generation
        )
    except ModelError as error:
        pytest.skip(error.message)
    if not (folder / "network.c").exists():
        pytest.skip("no C kernel computes this")
    for file in folder.iterdir():
        if file.name == JSON_NAME or (number // 4 % 2 and not file.name.endswith(BUILT)):
            file.unlink()
    found = read_program(folder / "network.c")
    values = inputs(program)
    wanted = execute(program, values).outputs
    got = execute(found, values).outputs
    assert [(n, v.dtype, v.shape, v.tobytes()) for n, v in got.items()] == [
        (n, v.dtype, v.shape, v.tobytes()) for n, v in wanted.items()
    ]
    read_back = found.buffer_map()
    for buffer in program.buffers:
        same = read_back[buffer.name]
        assert (same.shape, same.quant) == (buffer.shape, buffer.quant), buffer.name


def test_names_that_would_end_a_comment(tmp_path: Path) -> None:
    graph = renamed(kernels(), HOSTILE)
    program, _ = build(graph)
    found = read(program, tmp_path, "4.0").program
    calls = [[e.call for e in p.executed if e.call] for p in (program, found)]
    assert calls[0] == calls[1]
    values = sample(graph, 3)
    wanted, got = execute(program, values).outputs, execute(found, values).outputs
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)


def test_a_call_as_a_comment() -> None:
    args = (("low", float("-inf")), ("pads", ((1, 2), (0, 0))), ("name", "a*/b"), ("keep", True))
    call = Call("Clip", ("x", ""), ("y",), args)  # type: ignore[arg-type]
    text = call_comment(call)
    assert text.count("/") == 2
    comment = Comment(text.strip().removeprefix("/*").removesuffix("*/").strip())
    assert stated_call(Function("f", [comment])) == call


@pytest.mark.parametrize(
    "text", ["call={", "call=[]", 'call={"kernel":"Clip"}', "call=" + "[" * 9999]
)
def test_a_damaged_call_is_refused(text: str) -> None:
    with pytest.raises(FileError):
        stated_call(Function("f", [Comment(text)]))


def test_a_call_on_buffers_that_no_table_holds(tmp_path: Path) -> None:
    """The arguments of the library's kernel are read instead."""
    program, _ = build(kernels())
    path = tmp_path / "network.c"
    read(program, tmp_path, "4.0")
    text = path.read_text(encoding="utf-8")
    call = next(e.call for e in program.executed if e.call and e.call.kernel == "Softmax")
    other = replace(call, inputs=("elsewhere",))
    path.write_text(text.replace(call_comment(call), call_comment(other)), encoding="utf-8")
    found = [e.call for e in read_program(path).executed if e.call and e.call.kernel == "Softmax"]
    assert len(found) == 1 and found[0].inputs != ("elsewhere",)
