"""A .tflite file as a file graph (`files/file_graph.py`): look-ups and small changes of the
operators and tensors of its first subgraph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.records import Record, same
from npuscope.files.tflite.spelling import KINDS, OPTIONS, fields_of, int8_version, word_of
from npuscope.files.tflite.stored_file import StoredTflite
from npuscope.graph.model import Graph, Quant


class TfliteFileGraph(StoredTflite):
    """Tensors and operators know each other by reference."""

    format, channels_first, steps_are_nodes = "tflite", False, False
    opset, has_open_sizes = None, False  # versions belong to ops; sizes are stated

    # nodes

    def op(self, origin: str) -> FileOp | None:
        """By the name that findings use, as long as it was not removed."""
        match = self._origins.get(origin)
        return match if match in self.nodes else None

    def kind(self, op: FileOp) -> str:
        return KINDS.get(op.word, op.word)

    def word(self, op: FileOp) -> str:
        return op.word

    def title(self, op: FileOp) -> str:
        return op.origin or f"{op.word}:'{op.outputs[0].name}'"

    def inputs(self, op: FileOp) -> list[FileTensor | None]:
        return op.inputs

    def outputs(self, op: FileOp) -> list[FileTensor]:
        return op.outputs

    def attribute(self, op: FileOp, name: str, default: Any = None) -> Any:
        values = [op.option(field, default) for field in fields_of(name)]
        return values[0] if len(values) == 1 else tuple(values)

    def alike(self, one: FileOp, other: FileOp) -> bool:
        if one.word != other.word or not same(one.options, other.options):
            return False
        pairs = zip(one.outputs, other.outputs, strict=False)
        return all(a.meaning == b.meaning for a, b in pairs)

    def producer(self, tensor: FileTensor) -> FileOp | None:
        return next((op for op in self.nodes if tensor in op.outputs), None)

    def readers(self, tensor: FileTensor) -> list[FileOp]:
        return [op for op in self.nodes if tensor in op.inputs]

    # tensors

    def name(self, tensor: FileTensor | None) -> str:
        return "" if tensor is None else tensor.name

    def shape(self, tensor: FileTensor) -> tuple[int, ...] | None:
        return tensor.shape

    def type(self, tensor: FileTensor) -> str:
        return tensor.type.lower()

    def quant(self, tensor: FileTensor) -> Quant | None:
        return tensor.quant

    def values(self, tensor: FileTensor) -> np.ndarray | None:
        return tensor.data

    def state(
        self,
        tensor: FileTensor,
        shape: Sequence[int] | None = None,
        type: str = "",
        quant: Quant | None = None,
    ) -> None:
        tensor.shape = tensor.shape if shape is None else tuple(shape)
        tensor.type = type.upper() or tensor.type
        tensor.quant = quant or tensor.quant

    # new ones

    def new_tensor(self, stem: str, shape: Sequence[int], like: Any) -> FileTensor:
        return self.add_tensor(stem, like.type.upper(), shape, like.quant)

    def add_constant(self, stem: str, values: np.ndarray, quant: Quant | None = None) -> FileTensor:
        return self.add_tensor(stem, str(values.dtype).upper(), values.shape, quant, values)

    def set_values(self, tensor: FileTensor, values: np.ndarray) -> None:
        tensor.data = values

    def add_tensor(
        self,
        stem: str,
        type: str,
        shape: Sequence[int],
        quant: Quant | None = None,
        data: np.ndarray | None = None,
    ) -> FileTensor:
        names = {tensor.name for tensor in self.tensors}
        numbered = (f"{stem}_{n}" for n in range(1, len(names) + 2))
        name = next(n for n in (stem, *numbered) if n not in names)
        tensor = FileTensor(name, type, tuple(shape), quant, data)
        self.tensors.append(tensor)
        return tensor

    def add_op(
        self,
        kind: str,
        inputs: Iterable[FileTensor | None],
        output: FileTensor | Iterable[FileTensor],
        **attributes: Any,
    ) -> FileOp:
        """In the first version that takes int8."""
        table, word = OPTIONS.get(kind, ""), word_of(kind)
        fields = {fields_of(name)[0]: value for name, value in attributes.items()}
        outputs = [output] if isinstance(output, FileTensor) else [*output]
        options = Record(table, fields) if table else None
        return self.add_operator(word, inputs, outputs, options, int8_version(word))

    def again(
        self, op: FileOp, inputs: Iterable[FileTensor | None], output: FileTensor, **changes: Any
    ) -> FileOp:
        options = op.options.copy() if op.options else None
        if options is not None:
            options.fields |= {fields_of(name)[0]: value for name, value in changes.items()}
        return self.add_operator(op.word, inputs, [output], options, op.version)

    def add_operator(
        self,
        word: str,
        inputs: Iterable[FileTensor | None],
        outputs: Iterable[FileTensor],
        options: Record | None = None,
        version: int = 1,
    ) -> FileOp:
        """Its place is found when the file is written; the version is that of its kind here."""
        versions = [op.version for op in self.nodes if op.word == word]
        op = FileOp(word, [*inputs], [*outputs], options, max([version, *versions]))
        self.nodes.append(op)
        return op

    # changes

    def set_attribute(self, op: FileOp, name: str, value: Any) -> None:
        options = op.options.copy() if op.options else Record(OPTIONS[self.kind(op)])
        fields = fields_of(name)
        values = [value] if len(fields) == 1 else value
        options.fields |= dict(zip(fields, values, strict=True))
        op.options = options

    def set_input(self, op: FileOp, place: int, tensor: FileTensor | None) -> None:
        op.inputs = [*op.inputs[:place], tensor, *op.inputs[place + 1 :]]

    def set_output(self, op: FileOp, old: FileTensor, new: FileTensor) -> None:
        op.outputs = [new if tensor is old else tensor for tensor in op.outputs]

    def remove(self, op: FileOp) -> None:
        self.nodes.remove(op)

    def drop_dead(self) -> None:
        """Ops stay until they are removed."""

    def rewire(
        self, old: FileTensor, new: FileTensor, readers: Iterable[FileOp] | None = None
    ) -> None:
        """Readers of `old` read `new`: all but the maker of `new`, unless they are named.

        An output of the graph moves with all readers.
        """
        others = [op for op in self.readers(old) if new not in op.outputs]
        for op in others if readers is None else readers:
            op.inputs = [new if tensor is old else tensor for tensor in op.inputs]
        if readers is None:
            self.network_outputs = [
                new if tensor is old else tensor for tensor in self.network_outputs
            ]

    # the network

    def set_network_outputs(self, tensors: Sequence[FileTensor], network: Graph) -> None:
        """Ops that only other outputs needed go."""
        if self.keeps_state:
            raise ValueError("the network keeps values for the next inference: it cannot be cut")
        self.network_outputs = [*tensors]
        needed, live, waiting = set(tensors), set[FileOp](), [*tensors]
        makers = {tensor: op for op in self.nodes for tensor in op.outputs}
        while waiting:
            op = makers.get(waiting.pop())
            if op is None or op in live:
                continue
            live.add(op)
            new = [t for t in op.inputs if t is not None and t not in needed]
            needed.update(new)
            waiting += new
        self.main.ops = [op for op in self.nodes if op in live]

    def fix_sizes(self, tensor: FileTensor, shape: Sequence[int]) -> None:
        tensor.shape = tuple(shape)
        if "ShapeSignature" in tensor.source.fields:
            tensor.source.fields["ShapeSignature"] = np.array(shape, np.int32)

    def close_batch(self) -> bool:
        """Sizes are 1 already; only the signatures say that they may change."""
        open_tensors = [tensor for tensor in self.tensors if tensor.has_open_batch]
        for tensor in open_tensors:
            signature = tensor.source.fields["ShapeSignature"].copy()
            signature[0] = 1
            tensor.source.fields["ShapeSignature"] = signature
        return bool(open_tensors)
