"""TFLite documents: what is not edited stays, what is edited can be read again."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from models import Net, mobilenet_like, save, to_tflite
from npuscope.edits import open_document
from npuscope.edits.tflite.document import TfliteDocument
from npuscope.files.load import load_model, read_model
from npuscope.files.tflite.records import Record
from npuscope.graph.model import Graph, Quant, first_difference

PATH = Path("net.tflite")


def graph_of(document: TfliteDocument) -> Graph:
    return read_model(PATH, document.to_bytes())


def residual() -> bytes:
    net = Net((1, 8, 8, 4))
    first = net.conv(8)
    net.conv(8, depthwise=True)
    net.add(first, 1)
    net.mean()
    net.dense(5)
    net.softmax()
    return to_tflite(net)


@pytest.mark.parametrize("make", [residual, lambda: to_tflite(mobilenet_like())])
def test_a_file_is_the_same_network_after_writing(make: object) -> None:
    data = make()  # type: ignore[operator]
    written = rewritten(data)
    assert first_difference(read_model(PATH, data), read_model(PATH, written)) == ""
    assert [op.origin for op in read_model(PATH, data).ops] == [
        op.origin for op in read_model(PATH, written).ops
    ]


def test_options_versions_and_names_stay() -> None:
    data = residual()
    before, after = (schema.ModelT.InitFromPackedBuf(d, 0) for d in (data, rewritten(data)))
    for old, new in zip(before.subgraphs[0].operators, after.subgraphs[0].operators, strict=True):
        codes = [m.operatorCodes[o.opcodeIndex] for m, o in ((before, old), (after, new))]
        assert codes[0].builtinCode == codes[1].builtinCode
        assert codes[0].version == codes[1].version
        assert vars(old.builtinOptions or object) == vars(new.builtinOptions or object)
    assert [t.name for t in before.subgraphs[0].tensors] == [
        t.name for t in after.subgraphs[0].tensors
    ]


def rewritten(data: bytes) -> bytes:
    return TfliteDocument.parse(data).written()


def test_buffers_are_aligned_for_the_runtime() -> None:
    import tflite

    data = rewritten(residual())
    model = tflite.Model.GetRootAs(data, 0)
    whole = np.frombuffer(data, np.uint8)
    places = [model.Buffers(n).DataAsNumpy() for n in range(model.BuffersLength())]
    starts = [
        p.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        for p in places
        if isinstance(p, np.ndarray)
    ]
    assert starts
    assert {start % 16 for start in starts} == {0}


def test_metadata_signatures_and_attached_files_stay() -> None:
    import flatbuffers

    model = schema.ModelT.InitFromPackedBuf(residual(), 0)
    notes = schema.BufferT()
    notes.data = np.frombuffer(b"made by a test", np.uint8)
    model.buffers.append(notes)
    entry = schema.MetadataT()
    entry.name, entry.buffer = b"origin", len(model.buffers) - 1
    model.metadata = [entry]
    graph = model.subgraphs[0]
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"serving_default", 0
    signature.inputs, signature.outputs = [schema.TensorMapT()], [schema.TensorMapT()]
    signature.inputs[0].name, signature.inputs[0].tensorIndex = b"image", graph.inputs[0]
    signature.outputs[0].name, signature.outputs[0].tensorIndex = b"scores", graph.outputs[0]
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    archive = io.BytesIO(bytes(builder.Output()))
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("labels.txt", "cat\ndog\n")

    written = rewritten(archive.getvalue())

    after = schema.ModelT.InitFromPackedBuf(written, 0)
    assert after.metadata[0].name == b"origin"
    assert bytes(after.buffers[after.metadata[0].buffer].data) == b"made by a test"
    kept = after.signatureDefs[0]
    assert (kept.inputs[0].name, kept.outputs[0].name) == (b"image", b"scores")
    assert kept.inputs[0].tensorIndex == after.subgraphs[0].inputs[0]
    assert kept.outputs[0].tensorIndex == after.subgraphs[0].outputs[0]
    with zipfile.ZipFile(io.BytesIO(written)) as file:
        assert file.read("labels.txt") == b"cat\ndog\n"


def test_an_op_in_the_middle_is_found_removed_and_replaced() -> None:
    document = TfliteDocument.parse(residual())
    softmax = document.op("SOFTMAX:#5")
    assert softmax is not None
    scores = softmax.inputs[0]
    assert scores is not None
    document.remove(softmax)
    document.network_outputs = [scores]
    assert document.op("SOFTMAX:#5") is None
    graph = graph_of(document)
    assert [op.kind for op in graph.ops][-1] == "FullyConnected"
    assert graph.outputs == (scores.name,)


def test_ops_are_put_in_order_and_unused_tensors_dropped() -> None:
    """A new op appended at the end stands in front of those that read it."""
    document = TfliteDocument.parse(residual())
    dense = document.op("FULLY_CONNECTED:#4")
    assert dense is not None and dense.inputs[0] is not None
    source = dense.inputs[0]
    copy = document.add_tensor(source.name, source.type, source.shape, source.quant)
    assert copy.name == f"{source.name}_1"
    document.add_op("Relu", [source], [copy])
    document.rewire(source, copy, [dense])
    document.add_tensor("nobody", "INT8", (3,), None, np.zeros(3, np.int8))
    kinds = [op.kind for op in graph_of(document).ops]
    assert kinds.index("Clip") < kinds.index("FullyConnected")
    assert "nobody" not in {tensor.name for tensor in document.tensors}


def test_quantization_and_data_of_a_tensor_change() -> None:
    document = TfliteDocument.parse(residual())
    document.network_inputs[0].quant = Quant((0.5,), (3,))
    graph = graph_of(document)
    assert graph.tensor(graph.inputs[0]).quant == Quant((0.5,), (3,))


def test_a_copy_is_apart() -> None:
    document = TfliteDocument.parse(residual())
    copy = document.copy()
    copy.remove(copy.nodes[-1])
    copy.network_outputs = [copy.nodes[-1].outputs[0]]
    assert len(graph_of(document).ops) == len(graph_of(copy).ops) + 1


def test_records_copy_deeply() -> None:
    record = Record("Tensor", {"Quantization": Record("QuantizationParameters", {"Scale": [1]})})
    copy = record.copy()
    copy.fields["Quantization"].fields["Scale"].append(2)
    assert record.fields["Quantization"].fields["Scale"] == [1]


def repacked(change: Callable[[Any], None]) -> bytes:
    model = schema.ModelT.InitFromPackedBuf(residual())
    change(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_codes_that_stand_in_the_new_field_alone_are_read() -> None:
    """As ai-edge-quantizer writes those that it adds: the old field would say ADD."""

    def forget_old(model: Any) -> None:
        for code in model.operatorCodes:
            code.deprecatedBuiltinCode = 0

    data = repacked(forget_old)
    wanted = read_model(PATH, residual())
    assert first_difference(wanted, read_model(PATH, data)) == ""
    assert first_difference(wanted, graph_of(TfliteDocument.parse(data))) == ""


def test_constants_behind_the_flatbuffer_stay_there() -> None:
    place, moved = 1 << 16, []

    def move_out(model: Any) -> None:
        sizes = [0 if buffer.data is None else len(buffer.data) for buffer in model.buffers]
        buffer = model.buffers[sizes.index(max(sizes))]
        moved.append(bytes(bytearray(buffer.data)))
        buffer.offset, buffer.size, buffer.data = place, max(sizes), None

    data = repacked(move_out)
    data += bytes(place - len(data)) + moved[0]
    wanted = read_model(PATH, residual())
    assert first_difference(wanted, read_model(PATH, data)) == ""
    written = rewritten(data)
    assert len(written) < place and written.endswith(moved[0])
    assert first_difference(wanted, read_model(PATH, written)) == ""


def test_all_shared_models_stay_the_same(shared_models: Path, tmp_path: Path) -> None:
    for path in sorted(shared_models.iterdir())[::6]:
        data = open_document(path).to_bytes()
        again = load_model(save(tmp_path, path.name, data))
        assert first_difference(load_model(path), again) == "", path.name
