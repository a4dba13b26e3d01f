"""A .tflite file as it is stored, and how it is written without loss.

Tensors, operators, buffers and operator codes know each other by reference; numbers are given anew
when the file is written. Everything that nobody changed is written as it was read: all subgraphs,
signatures, metadata, shared buffers, versions, and fields that nothing here looks at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self, TypeVar

import numpy as np

from npuscope.errors import FileError, ModelError
from npuscope.files.order import in_order
from npuscope.files.tflite.file import operator_name, type_name
from npuscope.files.tflite.file_parts import (
    ABSENT,
    CUSTOM,
    SIDES,
    FileOp,
    FileTensor,
    Signature,
    Subgraph,
    changed,
    content,
    graph_record,
    int_array,
    ints,
    is_held,
    name_of,
    quant_of,
    typed,
)
from npuscope.files.tflite.records import (
    Record,
    TfliteFile,
    read_model_file,
    same,
    write_model_file,
)
from npuscope.files.tflite.schema import OPERATORS
from npuscope.structs import replace
from npuscope.text import safe_terminal

_OLD_CODES = 127  # the deprecated field ends here and then says: look at the new one
T = TypeVar("T")


class StoredTflite:
    """The first subgraph is the network, which edits are about."""

    def __init__(self, file: TfliteFile, original: bytes = b"") -> None:
        self._file, self._original = file, original
        self.model = Record("Model", dict(file.model.fields))
        self.codes: list[Record] = [code.copy() for code in self.model.get("OperatorCodes", [])]
        self._buffers: list[Record] = [*self.model.get("Buffers", [])]
        try:
            self.subgraphs = [self._subgraph(r) for r in self.model.get("Subgraphs", [])]
            self.main = self.subgraphs[0]
            self._signatures = [self._signature(r) for r in self.model.get("SignatureDefs", [])]
            self._metadata = [
                (entry, _at(self._buffers, entry.get("Buffer", 0)))
                for entry in self.model.get("Metadata", [])
            ]
        except IndexError:
            raise FileError(
                "the file is damaged: it names a tensor, a buffer or a subgraph that does not "
                "exist",
                hint="copy or export the model again",
            ) from None
        # Nothing reads this list any more, and tools that move buffers leave it behind.
        self._old_metadata: list[Record | int] = [
            self._buffers[number] if 0 <= number < len(self._buffers) else number
            for number in ints(self.model.get("MetadataBuffer"))
        ]
        self._wires = _wires(self.nodes)
        # What nobody named when the file was read stays, though nobody names it now.
        self._unnamed = {*(t for g in self.subgraphs for t in g.tensors)} - self._named_tensors()
        self._unused = _others(self._buffers, self._used_buffers())
        self._unused_codes = _others(self.codes, self._used_codes())
        self._origins = {op.origin: op for op in self.main.ops}
        self._bound = {op: [t.meaning for t in op.tensors] for op in self.nodes if op.is_bound}

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """`data` must be a file that the reader accepts."""
        return cls(read_model_file(data), data)

    def copy(self) -> Self:
        return type(self).parse(self.to_bytes())

    # the network

    @property
    def tensors(self) -> list[FileTensor]:
        return self.main.tensors

    @property
    def nodes(self) -> list[FileOp]:
        return self.main.ops

    @property
    def network_inputs(self) -> list[FileTensor]:
        return self.main.inputs

    @network_inputs.setter
    def network_inputs(self, tensors: Sequence[FileTensor]) -> None:
        self.main.inputs = [*tensors]

    @property
    def network_outputs(self) -> list[FileTensor]:
        return self.main.outputs

    @network_outputs.setter
    def network_outputs(self, tensors: Sequence[FileTensor]) -> None:
        self.main.outputs = [*tensors]

    @property
    def keeps_state(self) -> bool:
        """Whether one inference leaves something behind for the next."""
        has_effects = any(not op.outputs for op in self.nodes)
        return has_effects or any(tensor.is_variable for tensor in self.tensors)

    def use_new_codes(self) -> None:
        """Old writers fill only the deprecated field of an operator's code, and some readers look
        only at the other."""
        for code in self.codes:
            number = _operator_number(code)
            code.fields |= {
                "BuiltinCode": number,
                "DeprecatedBuiltinCode": min(number, _OLD_CODES),
            }

    # writing

    def to_bytes(self) -> bytes:
        """A file that nobody changed is the original, byte by byte."""
        file = self._numbered()
        if self._original and same(file.model, self._file.model):
            return self._original
        # Operators whose operands are fixed elsewhere must find them as they were, in the order
        # in which they were: variables are read and written without a tensor between.
        for op, meanings in self._bound.items():
            if op in self.nodes and [tensor.meaning for tensor in op.tensors] != meanings:
                raise ModelError(
                    f"{safe_terminal(op.origin)} cannot take another operand: it is tied to "
                    "other parts of the file"
                )
        bound = [op for op in self.nodes if op in self._bound]
        if bound != [op for op in self._bound if op in bound]:
            raise ModelError("the order of the operators that handle variables would change")
        return write_model_file(file)

    def written(self) -> bytes:
        """By the writer, whether something was changed or not."""
        return write_model_file(self._numbered())

    def _settle(self) -> None:
        """Operators in order, no tensor that an edit left behind, a buffer and a code for each."""
        if _wires(self.nodes) != self._wires:
            makers = {tensor: op for op in self.nodes for tensor in op.outputs}
            needs = {op: [makers[t] for t in op.inputs if t in makers] for op in self.nodes}
            self.main.ops = in_order(self.nodes, needs)
        tensors = self._named_tensors() | self._unnamed
        for graph in self.subgraphs:
            graph.tensors = [tensor for tensor in graph.tensors if tensor in tensors]
            for tensor in graph.tensors:
                self._place(tensor)
            for op in graph.ops:
                key = (op.word, op.version, op.code.get("CustomCode") if op.code else None)
                if op.code is None or _key(op.code) != key:
                    codes = {_key(code): code for code in (*self._used_codes(), *self.codes)}
                    op.code = codes[key] if key in codes else _new_code(*key)

    def _numbered(self) -> TfliteFile:
        """All records with the numbers that things have now."""
        self._settle()
        buffers = _kept(self._buffers, self._used_buffers(), self._unused)
        codes = _kept(self.codes, self._used_codes(), self._unused_codes)
        numbers = {id(record): n for each in (buffers, codes) for n, record in enumerate(each)}
        graphs = [graph_record(graph, numbers) for graph in self.subgraphs]
        tensors = {t: n for graph in self.subgraphs for n, t in enumerate(graph.tensors)}
        signatures = [signature.record(tensors) for signature in self._signatures]
        metadata = [changed(e, Buffer=numbers[id(buffer)]) for e, buffer in self._metadata]
        model = changed(
            self.model,
            OperatorCodes=codes,
            Subgraphs=graphs,
            Buffers=buffers,
            MetadataBuffer=int_array(
                entry if isinstance(entry, int) else numbers[id(entry)]
                for entry in self._old_metadata
            ),
            Metadata=metadata,
            SignatureDefs=signatures,
        )
        return replace(self._file, model=model)

    def _named_tensors(self) -> set[FileTensor]:
        signatures = (tensor for signature in self._signatures for tensor in signature.tensors())
        return {*(tensor for graph in self.subgraphs for tensor in graph.named), *signatures}

    def _used_buffers(self) -> list[Record]:
        """The first one is kept for tensors without data."""
        tensors = (tensor.buffer for graph in self.subgraphs for tensor in graph.tensors)
        old = (entry for entry in self._old_metadata if isinstance(entry, Record))
        metadata = (*(buffer for _, buffer in self._metadata), *old)
        buffers = (*self._buffers[:1], *tensors, *metadata)
        return [buffer for buffer in buffers if buffer is not None]

    def _used_codes(self) -> list[Record]:
        return [op.code for graph in self.subgraphs for op in graph.ops if op.code is not None]

    def _place(self, tensor: FileTensor) -> None:
        """Data that were changed get a buffer of their own: others may share the old one."""
        data = tensor.data
        if tensor.buffer is not None and is_held(data, tensor.held):
            return
        if tensor.source.get("Sparsity") is not None:
            raise ModelError(f"'{safe_terminal(tensor.name)}' is sparse: it cannot be changed")
        if data is not None:
            raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            tensor.buffer = Record("Buffer", {"Data": raw})
        elif self._buffers and content(self._buffers[0]) is None:
            tensor.buffer = self._buffers[0]
        else:
            tensor.buffer = Record("Buffer")
        tensor.held = data

    # reading

    def _subgraph(self, record: Record) -> Subgraph:
        tensors = [self._tensor(entry) for entry in record.get("Tensors", [])]
        ops = [self._op(n, r, tensors) for n, r in enumerate(record.get("Operators", []))]
        sides = [[_at(tensors, n) for n in ints(record.get(side))] for side in SIDES]
        return Subgraph(record, tensors, ops, *sides)

    def _tensor(self, record: Record) -> FileTensor:
        kind, shape = type_name(record.get("Type")), tuple(ints(record.get("Shape")))
        buffer = _at(self._buffers, record.get("Buffer"))
        raw = content(buffer)
        data = None if raw is None else typed(raw, kind, shape)
        quant = quant_of(record.get("Quantization"))
        return FileTensor(name_of(record), kind, shape, quant, data, record.copy(), buffer, data)

    def _op(self, index: int, record: Record, tensors: list[FileTensor]) -> FileOp:
        code = _at(self.codes, record.get("OpcodeIndex"))
        kind, version, _ = _key(code)
        custom = code.get("CustomCode", b"").decode(errors="backslashreplace")
        inputs, between = (
            [None if n == ABSENT else _at(tensors, n) for n in ints(record.get(side))]
            for side in ("Inputs", "Intermediates")
        )
        options = record.get("BuiltinOptions")
        return FileOp(
            kind,
            inputs,
            [_at(tensors, n) for n in ints(record.get("Outputs"))],
            options.copy() if options is not None else None,
            version,
            f"{kind}{f' {custom}' if kind == CUSTOM else ''}:#{index}",
            record,
            code,
            between,
        )

    def _signature(self, record: Record) -> Signature:
        graph = _at(self.subgraphs, record.get("SubgraphIndex"))
        numbered = dict(enumerate(graph.tensors))
        entries = {
            side: [(e, numbered.get(e.get("TensorIndex"))) for e in record.get(side, [])]
            for side in SIDES
        }
        border = {side: [*tensors] for side, tensors in graph.sides.items()}
        return Signature(record, graph, entries, border)


def _wires(ops: Sequence[FileOp]) -> list[tuple[FileOp, list[FileTensor | None], list[FileTensor]]]:
    return [(op, [*op.inputs], [*op.outputs]) for op in ops]


def _at(items: Sequence[T], number: int) -> T:
    """A number below zero leads nowhere."""
    if number < 0:
        raise IndexError
    return items[number]


def _others(records: Sequence[Record], used: Iterable[Record]) -> set[int]:
    return {id(record) for record in records} - {id(record) for record in used}


def _kept(records: Sequence[Record], used: Sequence[Record], unused: set[int]) -> list[Record]:
    """Those that are used, and those that never were, in the order of the file; then new ones."""
    by_id = {id(record): record for record in used}
    old = [record for record in records if id(record) in by_id or id(record) in unused]
    new = by_id.keys() - {id(record) for record in records}
    return [*old, *(record for key, record in by_id.items() if key in new)]


def _key(code: Record) -> tuple[str, int, bytes | None]:
    """What operators of a code have in common."""
    kind = operator_name(_operator_number(code))
    return kind, code.get("Version", 1), code.get("CustomCode")


def _operator_number(code: Record) -> int:
    return int(max(code.get("BuiltinCode", 0), code.get("DeprecatedBuiltinCode", 0)))


def _new_code(kind: str, version: int, custom: bytes | None) -> Record:
    number = OPERATORS.index(kind)
    fields = {"DeprecatedBuiltinCode": min(number, _OLD_CODES), "BuiltinCode": number}
    custom_code = {} if custom is None else {"CustomCode": custom}
    return Record("OperatorCode", {**fields, **custom_code, "Version": version})
