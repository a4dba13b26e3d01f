"""Reasons for the software epochs of a program that states none."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import npuscope
from compiler.nets import MACHINES, Net, compiled
from npuscope.advice.compare.sides import plain, with_reasons
from npuscope.errors import NpuscopeError
from npuscope.graph.model import Graph
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.structs import replace

MACHINE = MACHINES["2.2"]


def network() -> Graph:
    net = Net()
    flat = net.dense(net.reshape(net.conv(net.input((1, 4, 4, 4)), 8), (1, 128)), 257)
    x = net.dense(flat, 16)  # of 257 inputs: the CPU computes it
    net.dequantize(net.softmax(x))
    return net.graph()


def without_reasons(program: Program, rename: bool) -> Program:
    def bare(epoch: Epoch) -> Epoch:
        names = tuple(plain(name) for name in epoch.origin) if rename else epoch.origin
        return replace(epoch, trail=(), origin=names)

    return replace(program, epochs=tuple(map(bare, program.epochs)))


@pytest.mark.parametrize("rename", [False, True])
def test_the_reasons_come_back(rename: bool) -> None:
    graph = network()
    program = compiled(graph, "2.2")
    found = with_reasons(without_reasons(program, rename), graph, MACHINE)
    wanted = [e.trail for e in program.executed if e.kind is EpochKind.SW]
    assert [e.trail for e in found.executed if e.kind is EpochKind.SW] == wanted
    assert len(wanted) == 3 and all(wanted)


def test_a_build_is_explained_without_a_model_that_is_refused(tmp_path: Path) -> None:
    """A damaged model, or a float one, beside a build: only who names it is told of the error."""
    npuscope.compile(network(), tmp_path / "net")
    model = tmp_path / "net.tflite"
    model.write_bytes(b"not a model")
    program = npuscope.load(tmp_path / "net")
    digest = hashlib.md5(model.read_bytes(), usedforsecurity=False).hexdigest()
    replace(program, model_md5=digest).save(tmp_path / "net")
    explanation = npuscope.explain(tmp_path / "net")
    (note,) = [text for text in explanation.profile.notes if text.startswith("reasons are not")]
    assert note.startswith("reasons are not known: the model beside it, net.tflite, is refused: ")
    with pytest.raises(NpuscopeError):
        npuscope.explain(tmp_path / "net", model=model)


def test_a_conversion_without_a_source_has_its_usual_reason() -> None:
    epoch = Epoch(1, 1, EpochKind.SW, operators=("DequantizeLinear",))
    other = Epoch(2, 2, EpochKind.SW, operators=("Einsum",))
    program = replace(compiled(network(), "2.2"), epochs=(epoch, other))
    known, unknown = with_reasons(program, network(), MACHINE).epochs
    assert [refused.rule for refused in known.trail] == ["NA-DEQUANTIZE-FLOAT"]
    assert unknown.trail == ()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("CONV_2D:#68", "CONV_2D_68"),
        ("PRelu:/conv1/prelu/PRelu_output_0", "_conv1_prelu_PRelu_output_0"),
        ("/a/b_quantized", "_a_b_quantized"),
    ],
)
def test_names_are_one(ours: str, theirs: str) -> None:
    assert plain(ours) == plain(theirs)
