"""A .tflite file to edit: ops and tensors that know each other by reference, not by number."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np

from npuscope.edits.records import in_order
from npuscope.edits.tflite.records import Record, read_model_record, write_record
from npuscope.graph.model import Quant
from npuscope.lean_dataclass import dataclass

_IDENTIFIER = b"TFL3"
_ARRAYS = {
    "FLOAT32": "float32",
    "FLOAT16": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}
_OLD_CODES = 127  # the deprecated field ends here and then says: look at the new one


@dataclass(slots=True, eq=False)
class EditTensor:
    """A tensor. `data` of a constant has its shape; packed types stay a row of bytes.

    `source` keeps the fields that no edit looks at.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    quant: Quant | None = None
    data: np.ndarray | None = None
    source: Record = field(default_factory=lambda: Record("Tensor"))

    @property
    def is_constant(self) -> bool:
        return self.data is not None


@dataclass(slots=True, eq=False)
class EditOp:
    """An operator; an absent optional input is None. `options` is a record of the schema."""

    kind: str
    inputs: list[EditTensor | None]
    outputs: list[EditTensor]
    options: Record | None = None
    version: int = 1
    origin: str = ""
    source: Record = field(default_factory=lambda: Record("Operator"))

    def option(self, name: str, default: Any = 0) -> Any:
        return self.options.get(name, default) if self.options else default

    def input(self, place: int) -> EditTensor | None:
        return self.inputs[place] if place < len(self.inputs) else None


class TfliteFile:
    """The one subgraph of a file. Order and numbers are found again when it is written."""

    format = "tflite"

    def __init__(self, model: Record, attached: bytes = b"") -> None:
        self.model = model
        self.attached = attached
        self.graph: Record = model.fields["Subgraphs"][0]
        self._buffers: list[Record] = model.fields["Buffers"]
        self.tensors = [self._tensor(record) for record in self.graph.get("Tensors", [])]
        self._by_number = tuple(self.tensors)
        codes = model.get("OperatorCodes", [])
        operators = enumerate(self.graph.get("Operators", []))
        self.ops = [self._op(index, record, codes) for index, record in operators]
        self.graph_inputs = [self.tensors[n] for n in _ints(self.graph.get("Inputs"))]
        self.graph_outputs = [self.tensors[n] for n in _ints(self.graph.get("Outputs"))]
        self._origins = {op.origin: op for op in self.ops}

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """`data` must be a file that the reader accepts."""
        return cls(read_model_record(data), _attached(data))

    def copy(self) -> Self:
        return type(self).parse(self.to_bytes())

    # finding

    def op(self, origin: str) -> EditOp | None:
        """By the name that findings use, as long as it was not removed."""
        found = self._origins.get(origin)
        return found if found in self.ops else None

    def producer(self, tensor: EditTensor) -> EditOp | None:
        return next((op for op in self.ops if tensor in op.outputs), None)

    def readers(self, tensor: EditTensor) -> list[EditOp]:
        return [op for op in self.ops if tensor in op.inputs]

    def is_output(self, tensor: EditTensor) -> bool:
        return tensor in self.graph_outputs

    # editing

    def add_tensor(
        self,
        stem: str,
        type: str,
        shape: Sequence[int],
        quant: Quant | None = None,
        data: np.ndarray | None = None,
    ) -> EditTensor:
        names = {tensor.name for tensor in self.tensors}
        numbered = (f"{stem}_{n}" for n in range(1, len(names) + 2))
        name = next(n for n in (stem, *numbered) if n not in names)
        tensor = EditTensor(name, type, tuple(shape), quant, data)
        self.tensors.append(tensor)
        return tensor

    def add_op(
        self,
        kind: str,
        inputs: Iterable[EditTensor | None],
        outputs: Iterable[EditTensor],
        options: Record | None = None,
        version: int = 1,
    ) -> EditOp:
        """Its place is found when the file is written; the version is that of its kind here."""
        known = [op.version for op in self.ops if op.kind == kind]
        made = EditOp(kind, [*inputs], [*outputs], options, max([version, *known]))
        self.ops.append(made)
        return made

    def remove(self, op: EditOp) -> None:
        self.ops.remove(op)

    def rewire(
        self, old: EditTensor, new: EditTensor, readers: Iterable[EditOp] | None = None
    ) -> None:
        """Readers of `old` read `new`: all but the maker of `new`, unless they are named.

        An output of the graph moves with all readers.
        """
        others = [op for op in self.readers(old) if new not in op.outputs]
        for op in others if readers is None else readers:
            op.inputs = [new if tensor is old else tensor for tensor in op.inputs]
        if readers is None:
            self.graph_outputs = [new if tensor is old else tensor for tensor in self.graph_outputs]

    # writing

    def to_bytes(self) -> bytes:
        import flatbuffers

        model = self._record()
        size = sum(len(b.get("Data", ())) for b in model.fields["Buffers"])
        builder = flatbuffers.Builder(size + size // 8 + 65536)
        builder.Finish(write_record(builder, model), _IDENTIFIER)
        return bytes(builder.Output()) + self.attached

    def _record(self) -> Record:
        self._sort()
        used = [t for op in self.ops for t in (*op.inputs, *op.outputs) if t is not None]
        kept = dict.fromkeys((*self.graph_inputs, *self.graph_outputs, *used))
        self.tensors = [t for t in self.tensors if t in kept]
        numbers = {tensor: number for number, tensor in enumerate(self.tensors)}
        buffers = [Record("Buffer")]
        codes: dict[tuple[str, int, bytes], int] = {}
        tensors = [_written_tensor(tensor, buffers) for tensor in self.tensors]
        operators = [_written_op(op, numbers, codes) for op in self.ops]
        graph = self.graph.copy()
        graph.fields.update(
            Tensors=tensors,
            Operators=operators,
            Inputs=np.array([numbers[t] for t in self.graph_inputs], np.int32),
            Outputs=np.array([numbers[t] for t in self.graph_outputs], np.int32),
        )
        model = self.model.copy()
        model.fields.update(
            Subgraphs=[graph], OperatorCodes=[_code(*key) for key in codes], Buffers=buffers
        )
        self._keep_metadata(model, buffers)
        self._keep_signatures(model)
        return model

    def _sort(self) -> None:
        made = {tensor: op for op in self.ops for tensor in op.outputs}
        needs = {op: [made[t] for t in op.inputs if t in made] for op in self.ops}
        self.ops = in_order(self.ops, needs)

    def _keep_metadata(self, model: Record, buffers: list[Record]) -> None:
        for entry in model.get("Metadata", []):
            source = self._buffers[entry.get("Buffer", 0)]
            entry.fields["Buffer"] = len(buffers)
            buffers.append(source)
        model.fields.pop("MetadataBuffer", None)  # numbers of buffers, long replaced by Metadata

    def _keep_signatures(self, model: Record) -> None:
        """The names that applications use follow their tensors; new ones keep the place."""
        for signature in model.get("SignatureDefs", []):
            for field_name, now in (("Inputs", self.graph_inputs), ("Outputs", self.graph_outputs)):
                before = [self._by_number[n] for n in _ints(self.graph.get(field_name))]
                named = [
                    (entry.get("Name", b""), self._by_number[entry.get("TensorIndex", 0)])
                    for entry in signature.get(field_name, [])
                ]
                names = _border_names(named, before, now)
                signature.fields[field_name] = [
                    Record("TensorMap", {"Name": name, "TensorIndex": self.tensors.index(tensor)})
                    for name, tensor in names.items()
                ]

    # reading

    def _tensor(self, record: Record) -> EditTensor:
        from tflite import TensorType

        names = {v: k for k, v in vars(TensorType).items() if isinstance(v, int)}
        kind = names.get(record.get("Type", 0), "")
        shape = tuple(_ints(record.get("Shape")))
        raw = self._buffers[record.get("Buffer", 0)].get("Data")
        name = record.get("Name", b"").decode(errors="surrogateescape")
        data = _typed(raw, kind, shape) if raw is not None and len(raw) else None
        return EditTensor(name, kind, shape, _quant(record.get("Quantization")), data, record)

    def _op(self, index: int, record: Record, codes: list[Record]) -> EditOp:
        code = codes[record.get("OpcodeIndex", 0)]
        kind = _kind(code)
        custom = code.get("CustomCode", b"").decode(errors="replace")
        shown = kind if kind != "CUSTOM" else f"CUSTOM {custom}"
        places = _ints(record.get("Inputs"))
        return EditOp(
            kind,
            [self.tensors[n] if n >= 0 else None for n in places],
            [self.tensors[n] for n in _ints(record.get("Outputs"))],
            record.get("BuiltinOptions"),
            code.get("Version", 1),
            f"{shown}:#{index}",
            record,
        )


def _attached(data: bytes) -> bytes:
    """Labels and other files that converters append as an archive, as they are."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            places = [entry.header_offset for entry in archive.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return b""
    return data[min(places) :] if places else b""


def _ints(values: Any) -> list[int]:
    return [] if values is None else [int(value) for value in values]


def _kind(code: Record) -> str:
    import tflite.utils

    number = max(code.get("BuiltinCode", 0), code.get("DeprecatedBuiltinCode", 0))
    return str(tflite.utils.BUILTIN_OPCODE2NAME[number])


def _typed(raw: np.ndarray, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind not in _ARRAYS:
        return raw
    return np.frombuffer(raw.tobytes(), _ARRAYS[kind]).reshape(shape)


def _quant(record: Record | None) -> Quant | None:
    if record is None or record.get("Scale") is None or not len(record.get("Scale")):
        return None
    scales = tuple(float(scale) for scale in record.get("Scale"))
    points = _ints(record.get("ZeroPoint")) or [0]
    points = points * len(scales) if len(points) == 1 else points
    axis = int(record.get("QuantizedDimension", 0)) if len(scales) > 1 else None
    return Quant(scales, tuple(points), axis)


def _written_tensor(tensor: EditTensor, buffers: list[Record]) -> Record:
    from tflite import TensorType

    record = tensor.source.copy()
    number = 0
    if tensor.data is not None:
        number = len(buffers)
        raw = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)
        buffers.append(Record("Buffer", {"Data": raw}))
    if tuple(_ints(record.get("Shape"))) != tensor.shape:
        record.fields.pop("ShapeSignature", None)
    record.fields.update(
        Shape=np.array(tensor.shape, np.int32),
        Type=getattr(TensorType, tensor.type),
        Buffer=number,
        Name=tensor.name.encode(errors="surrogateescape"),
    )
    if tensor.quant != _quant(record.get("Quantization")):
        record.fields.pop("Quantization", None)
        if tensor.quant is not None:
            record.fields["Quantization"] = _written_quant(tensor.quant)
    return record


def _written_quant(quant: Quant) -> Record:
    return Record(
        "QuantizationParameters",
        {
            "Scale": np.array(quant.scales, np.float32),
            "ZeroPoint": np.array(quant.zero_points, np.int64),
            "QuantizedDimension": quant.axis or 0,
        },
    )


def _written_op(
    op: EditOp, numbers: dict[EditTensor, int], codes: dict[tuple[str, int, bytes], int]
) -> Record:
    from tflite import BuiltinOptions

    custom = b"" if op.kind != "CUSTOM" else op.origin.partition(" ")[2].rpartition(":")[0].encode()
    record = op.source.copy()
    record.fields.update(
        OpcodeIndex=codes.setdefault((op.kind, op.version, custom), len(codes)),
        Inputs=np.array([-1 if t is None else numbers[t] for t in op.inputs], np.int32),
        Outputs=np.array([numbers[t] for t in op.outputs], np.int32),
    )
    if op.options is not None:
        record.fields["BuiltinOptions"] = op.options
        record.fields["BuiltinOptionsType"] = getattr(BuiltinOptions, op.options.table)
    return record


def _code(kind: str, version: int, custom: bytes) -> Record:
    from tflite import BuiltinOperator

    number = getattr(BuiltinOperator, kind)
    fields = {"DeprecatedBuiltinCode": min(number, _OLD_CODES), "BuiltinCode": number}
    named = {"CustomCode": custom} if custom else {}
    return Record("OperatorCode", {**fields, **named, "Version": version})


def _border_names(
    named: list[tuple[bytes, EditTensor]], before: list[EditTensor], now: list[EditTensor]
) -> dict[bytes, EditTensor]:
    """A tensor keeps its name, one that took another's place takes the name, new ones bring it."""
    names = {name: tensor for name, tensor in named if tensor in now}
    if not named:
        return names
    for name, tensor in named:
        place = before.index(tensor) if tensor in before else len(now)
        if tensor not in now and place < len(now) and now[place] not in names.values():
            names[name] = now[place]
    for tensor in now:
        if tensor not in names.values():
            names.setdefault(tensor.name.encode(errors="surrogateescape"), tensor)
    return names
