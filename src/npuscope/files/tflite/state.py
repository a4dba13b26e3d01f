"""Resource variables: what a network keeps from one inference to the next.

A variable is read at the beginning of an inference and written at its end, so it is an input and
an output of the network. What runs once to set it (CALL_ONCE) is not part of an inference.
"""

from __future__ import annotations

from msgspec import Struct, field

from npuscope.errors import ModelError
from npuscope.files.tflite.file import SourceOp, TfliteModel
from npuscope.structs import replace

HANDLE, READ, ASSIGN, ONCE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"
_STATE = (HANDLE, READ, ASSIGN, ONCE)


def with_state(source: TfliteModel) -> TfliteModel:
    """The network with its variables as inputs and outputs; others stay as they are."""
    if not any(op.kind in _STATE for op in source.ops):
        return source
    state = _State()
    ops = tuple(op for op in map(state.passed, source.ops) if op is not None)
    outputs = tuple(state.renamed(index) for index in source.outputs)
    results = [index for index in state.written() if index not in outputs]
    return replace(
        source,
        ops=ops,
        inputs=(*source.inputs, *state.inputs),
        outputs=tuple(dict.fromkeys((*outputs, *results))),
        states=len(state.inputs),
    )


class _State(Struct):
    """`value` is the tensor that holds a variable now; `same` are tensors that stand for others."""

    handles: dict[int, str] = field(default_factory=dict)  # tensor -> variable
    value: dict[str, int] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    same: dict[int, int] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)

    def renamed(self, index: int) -> int:
        return self.same.get(index, index)

    def written(self) -> list[int]:
        """What the variables hold after an inference, where that is not what they held before."""
        return [self.value[name] for name in self.value if name in self.assigned]

    def passed(self, op: SourceOp) -> SourceOp | None:
        """The op with its inputs renamed; None for those that only handle variables."""
        if op.kind == HANDLE:
            name = str(op.options.get("SharedName", "")) or f"#{op.index}"
            self.handles.update(dict.fromkeys(op.outputs, name))
        elif op.kind == READ:
            self._read(op)
        elif op.kind == ASSIGN:
            name = self._variable(op)  # before its inputs are looked at: it counts them
            self.value[name] = self.renamed(op.inputs[1])
            self.assigned.add(name)
        elif op.kind != ONCE:
            return replace(op, inputs=tuple(map(self.renamed, op.inputs)))
        return None

    def _read(self, op: SourceOp) -> None:
        name, output = self._variable(op), op.outputs[0]
        if name in self.value:
            self.same[output] = self.value[name]
            return
        self.value[name] = output
        self.inputs.append(output)

    def _variable(self, op: SourceOp) -> str:
        operands = 2 if op.kind == ASSIGN else 1
        if len(op.inputs) < operands or op.inputs[0] not in self.handles:
            raise ModelError("it does not name a variable", where=op.origin)
        if op.kind == READ and len(op.outputs) != 1:
            raise ModelError(f"{len(op.outputs)} outputs, expected one", where=op.origin)
        return self.handles[op.inputs[0]]
