"""A .tflite file written again is equal in every field; an edit changes only what it is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from file_fields import differences
from models import Net, conv_net, mobilenet_like, to_tflite
from models_whole_file import ADDITIONS, changed, moved_outside, stateful_net, unpacked
from npuscope.errors import ModelError, NpuscopeError
from npuscope.files.tflite import records
from npuscope.files.tflite.file_graph import TfliteFileGraph
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.records import Record
from npuscope.files.tflite.tables import TableField, fields
from npuscope.graph.model import Quant


def dense() -> bytes:
    net = Net((1, 8, 8, 4))
    net.conv(8)
    net.mean()
    net.dense(5)
    net.softmax()
    return to_tflite(net)


NETS: dict[str, Callable[[], bytes]] = {
    "dense": dense,
    "stateful": stateful_net,
    "conv": lambda: to_tflite(conv_net()),
    "mobilenet": lambda: to_tflite(mobilenet_like()),
}


def with_all(data: bytes) -> bytes:
    for addition in ADDITIONS.values():
        data = changed(data, addition)
    return data


def check_whole(data: bytes) -> None:
    graph = TfliteFileGraph.parse(data)
    assert graph.to_bytes() == data
    assert differences(data, graph.written()) == []


@pytest.mark.parametrize("net", NETS)
def test_every_field_stays(net: str) -> None:
    check_whole(NETS[net]())
    check_whole(with_all(NETS[net]()))


@pytest.mark.parametrize("addition", ADDITIONS)
def test_each_addition_stays(addition: str) -> None:
    check_whole(changed(stateful_net(), ADDITIONS[addition]))


@settings(max_examples=25)
@given(st.permutations(sorted(ADDITIONS)), st.integers(1, len(ADDITIONS)), st.sampled_from([*NETS]))
def test_any_additions_stay(names: list[str], count: int, net: str) -> None:
    data = NETS[net]()
    for name in names[:count]:
        data = changed(data, ADDITIONS[name])
    check_whole(data)
    check_inserted(data)


def test_data_behind_the_flatbuffer_stay_there() -> None:
    data = moved_outside(changed(stateful_net(), ADDITIONS["custom"]))
    check_whole(data)
    written = TfliteFileGraph.parse(data).written()
    assert all(buffer.data is None for buffer in unpacked(written).buffers)
    check_inserted(data)


def test_what_is_attached_stays() -> None:
    data = dense() + bytes(5) + b"a mark of somebody"
    assert TfliteFileGraph.parse(data).written().endswith(b"a mark of somebody")


# --- edits ---


def insert(graph: TfliteFileGraph) -> FileTensor:
    """An op that does nothing, in front of the first reader of something."""
    places = [*graph.network_inputs, *(t for op in graph.nodes for t in op.outputs)]
    tensor, reader = next(
        (t, op) for t in places for op in graph.readers(t) if t.shape and not op.is_bound
    )
    shape = np.array(tensor.shape, np.int32)
    sizes = graph.add_tensor("sizes", "INT32", shape.shape, None, shape)
    result = graph.add_tensor("inserted", tensor.type, tensor.shape, tensor.quant)
    options = Record("ReshapeOptions", {"NewShape": shape})
    graph.add_operator("RESHAPE", [tensor, sizes], [result], options)
    graph.rewire(tensor, result, [reader])
    return result


def check_inserted(data: bytes) -> None:
    """Inserted, written, read, taken out and written again: equal in every field."""
    graph = TfliteFileGraph.parse(data)
    insert(graph)
    written = graph.to_bytes()
    assert written != data
    again = TfliteFileGraph.parse(written)
    result = next(tensor for tensor in again.tensors if tensor.name == "inserted")
    op = again.producer(result)
    assert op is not None and op.inputs[0] is not None
    again.rewire(result, op.inputs[0])
    again.remove(op)
    assert differences(data, again.to_bytes()) == []


@pytest.mark.parametrize("net", NETS)
def test_an_insertion_can_be_undone(net: str) -> None:
    check_inserted(with_all(NETS[net]()))


def test_numbers_follow_in_every_list() -> None:
    """A tensor in front of all others changes every number."""
    data = with_all(dense())
    graph = TfliteFileGraph.parse(data)
    others = [[t.name for t in g.tensors] for g in graph.subgraphs[1:]]
    new = graph.add_tensor("first", "FLOAT32", (2,), None, np.ones(2, np.float32))
    graph.tensors.insert(0, graph.tensors.pop())
    next(op for op in graph.nodes if op.word == "SOFTMAX").inputs.append(new)
    names = {op.origin: [t.name for t in op.tensors] for op in graph.nodes}
    assert any("inner_2" in row for row in names.values())
    again = TfliteFileGraph.parse(graph.to_bytes())
    found = {op.origin: [t.name for t in op.tensors] for op in again.nodes}
    assert found == names and again.tensors[0].name == "first"
    assert [[t.name for t in g.tensors] for g in again.subgraphs[1:]] == others


def test_a_changed_constant_leaves_those_that_share_its_buffer() -> None:
    graph = TfliteFileGraph.parse(changed(dense(), ADDITIONS["buffers"]))
    one, same = (next(t for t in graph.tensors if t.name == name) for name in ("one", "same"))
    assert one.buffer is same.buffer and one.data is not None
    one.data = one.data + 1
    again = TfliteFileGraph.parse(graph.to_bytes())
    values = {t.name: t.data for t in again.tensors if t.name in ("one", "same")}
    assert values["one"].tolist() == list(range(1, 9))  # type: ignore[union-attr]
    assert values["same"].tolist() == list(range(8))  # type: ignore[union-attr]


def test_a_constant_with_its_own_values_is_no_change() -> None:
    data = dense()
    graph = TfliteFileGraph.parse(data)
    tensor = next(tensor for tensor in graph.tensors if tensor.data is not None)
    assert tensor.data is not None
    tensor.data = tensor.data.copy()
    assert graph.to_bytes() == data


def test_a_new_version_is_a_new_code_of_the_same_name() -> None:
    graph = TfliteFileGraph.parse(with_all(dense()))
    custom = next(op for op in graph.nodes if op.word == "CUSTOM")
    custom.version = 5
    model = unpacked(graph.to_bytes())
    code = model.operatorCodes[model.subgraphs[0].operators[5].opcodeIndex]
    assert (code.customCode, code.version) == (b"Mine", 5)


def test_a_new_name_changes_one_field() -> None:
    data = with_all(stateful_net())
    graph = TfliteFileGraph.parse(data)
    graph.nodes[3].outputs[0].name = "renamed"
    (difference,) = differences(data, graph.to_bytes())
    assert difference == "model.subgraphs[0].tensors[4].name: b'relu' and b'renamed'"


def bound_tensor(graph: TfliteFileGraph, kind: str) -> FileTensor:
    op: FileOp = next(op for op in graph.nodes if op.word == kind)
    return next(tensor for tensor in op.tensors if tensor.shape)


BOUND = ("WHILE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CUSTOM", "UNIDIRECTIONAL_SEQUENCE_LSTM")


@pytest.mark.parametrize("kind", BOUND)
def test_what_other_parts_of_the_file_know_cannot_be_changed(kind: str) -> None:
    graph = TfliteFileGraph.parse(with_all(stateful_net()))
    tensor = bound_tensor(graph, kind)
    tensor.type, tensor.quant = "INT8", Quant((0.1,), (0,))
    with pytest.raises(ModelError, match="it is tied to other parts of the file"):
        graph.to_bytes()


def test_variables_are_read_before_they_are_written() -> None:
    graph = TfliteFileGraph.parse(stateful_net())
    assert graph.keeps_state
    read = next(op for op in graph.nodes if op.word == "READ_VARIABLE")
    graph.remove(read)
    graph.nodes.append(read)
    graph.rewire(read.outputs[0], graph.network_inputs[0])
    with pytest.raises(ModelError, match="handle variables would change"):
        graph.to_bytes()


def test_a_sparse_constant_cannot_be_changed() -> None:
    graph = TfliteFileGraph.parse(changed(dense(), ADDITIONS["sparsity"]))
    tensor = next(tensor for tensor in graph.tensors if tensor.name == "sparse")
    tensor.data = np.zeros((2, 2), np.float32)
    with pytest.raises(ModelError, match="'sparse' is sparse"):
        graph.to_bytes()


# --- files that are newer, or damaged ---


def newer(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A file with a field that no schema known here has."""
    more = TableField("Newest", 20, "I", default=0)

    def with_newest(table: str) -> tuple[TableField, ...]:
        return (*fields(table), more) if table == "Tensor" else fields(table)

    graph = TfliteFileGraph.parse(dense())
    graph.tensors[0].source.fields["Newest"] = 5
    with monkeypatch.context() as patch:
        patch.setattr(records, "fields", with_newest)
        return graph.to_bytes()


def unknown_union(monkeypatch: pytest.MonkeyPatch) -> bytes:
    def forget(model: Any) -> None:
        ADDITIONS["later options"](model)
        model.subgraphs[0].operators[-1].builtinOptions2Type = 99

    return changed(dense(), forget)


@pytest.mark.parametrize(
    ("make", "what"),
    [(newer, "a field of Tensor"), (unknown_union, "number 99 of BuiltinOptions2")],
)
def test_a_newer_file_is_copied_but_not_edited(
    make: Callable[[pytest.MonkeyPatch], bytes], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make(monkeypatch)
    graph = TfliteFileGraph.parse(data)
    assert graph.to_bytes() == data
    insert(graph)
    with pytest.raises(ModelError) as error:
        graph.to_bytes()
    assert error.value.message == (
        f"the file cannot be written without loss: npuscope does not know {what}"
    )


def test_bytes_between_the_parts_have_a_meaning() -> None:
    data = bytearray(moved_outside(stateful_net()))
    data[data.index(bytes(64)) + 60] = 1
    graph = TfliteFileGraph.parse(bytes(data))
    insert(graph)
    with pytest.raises(ModelError, match="npuscope does not know data after its tables"):
        graph.to_bytes()


def test_a_truncated_file_is_refused_in_one_sentence() -> None:
    data = with_all(stateful_net())
    for end in range(8, len(data) - 8, 37):
        with pytest.raises(NpuscopeError) as error:
            TfliteFileGraph.parse(data[:end]).written()
        assert "damaged" in error.value.message


def test_a_changed_byte_is_read_or_refused() -> None:
    data = with_all(stateful_net())
    rng = np.random.default_rng(4)
    for place in rng.integers(8, len(data), 300):
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256))
        try:
            TfliteFileGraph.parse(bytes(damaged)).written()
        except NpuscopeError:
            continue


def test_shared_models_stay_equal(shared_models: Path) -> None:
    for path in sorted(shared_models.glob("*.tflite")):
        check_whole(path.read_bytes())
