"""Names that applications use for inputs and outputs follow the tensors of an edited file."""

from __future__ import annotations

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from models import TfliteWriter
from npuscope.edits.tflite.document import TfliteDocument


def document() -> TfliteDocument:
    """Two inputs, each with an op and an output, under the names of a signature."""
    writer = TfliteWriter()
    x, z = (writer.tensor(name, (1, 8), scale=0.1) for name in ("x", "z"))
    a, b = (writer.tensor(name, (1, 8), scale=0.1) for name in ("a", "b"))
    inner = writer.tensor("inner", (1, 8), scale=0.1)
    writer.op("RELU", [x], [inner])
    writer.op("RELU6", [inner], [a])
    writer.op("RELU", [z], [b])
    return TfliteDocument.parse(signed(writer.finish([x, z], [a, b])))


def signed(data: bytes) -> bytes:
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"serve", 0
    graph = model.subgraphs[0]
    signature.inputs = [named(f"in{n}", place) for n, place in enumerate(graph.inputs)]
    signature.outputs = [named(f"out{n}", place) for n, place in enumerate(graph.outputs)]
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def named(name: str, place: int) -> object:
    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name.encode(), int(place)
    return entry


def names(edited: TfliteDocument, kind: str) -> dict[str, str]:
    """Name in the signature -> tensor, as a fresh reader of the file finds them."""
    again = TfliteDocument.parse(edited.to_bytes())
    (signature,) = again.model.get("SignatureDefs")
    return {
        entry.get("Name").decode(): again.tensors[entry.get("TensorIndex", 0)].name
        for entry in signature.get(kind)
    }


def by_name(edited: TfliteDocument, name: str) -> object:
    return next(tensor for tensor in edited.tensors if tensor.name == name)


def test_nothing_changes_without_an_edit() -> None:
    assert names(document(), "Inputs") == {"in0": "x", "in1": "z"}
    assert names(document(), "Outputs") == {"out0": "a", "out1": "b"}


def test_an_input_that_goes_takes_its_name_along() -> None:
    edited = document()
    edited.network_outputs = edited.network_outputs[:1]
    edited.remove(edited.nodes[2])
    edited.network_inputs = edited.network_inputs[:1]
    assert names(edited, "Inputs") == {"in0": "x"}
    assert names(edited, "Outputs") == {"out0": "a"}


def test_the_first_of_two_goes() -> None:
    edited = document()
    edited.network_outputs = edited.network_outputs[1:]
    assert names(edited, "Outputs") == {"out1": "b"}


def test_a_tensor_in_the_place_of_another_gets_its_name() -> None:
    edited = document()
    edited.network_outputs[0] = by_name(edited, "inner")  # type: ignore[call-overload]
    assert names(edited, "Outputs") == {"out0": "inner", "out1": "b"}


@pytest.mark.parametrize("place", [0, 2])
def test_more_outputs_than_before_bring_their_own_names(place: int) -> None:
    edited = document()
    edited.network_outputs.insert(place, by_name(edited, "inner"))  # type: ignore[arg-type]
    assert names(edited, "Outputs") == {"out0": "a", "out1": "b", "inner": "inner"}
