"""Whether a program is consistent: units give what others take, word by word, and software
kernels exist and make the shapes that their buffers have. Geometry alone; nothing is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from npuscope.errors import InternalError, NpuscopeError
from npuscope.ops.kernels.table import has_kernel
from npuscope.ops.table import spec
from npuscope.ops.unknown import UNKNOWN
from npuscope.program import unit_words
from npuscope.program.calls import call_graph
from npuscope.program.links import Wiring, wired
from npuscope.program.model import Buffer, Call, Epoch, Group, Program
from npuscope.program.unit_words import FeaturePort, KernelPort, word_bytes
from npuscope.program.units import Arith, Convacc, PoolUnit, Streng, Unit
from npuscope.text import safe_terminal

_HINT = "please report it with the model: no file was written"


def check_balance(program: Program) -> None:
    """Raise for the first epoch that contradicts itself, with the ops that it came from."""
    buffers = program.buffer_map()
    for epoch in program.executed:
        for problem in _problems(epoch, buffers, program.constants):
            ops = f" ({', '.join(epoch.origin)})" if epoch.origin else ""
            raise InternalError(
                f"the compiled program contradicts itself: {safe_terminal(problem)}",
                where=safe_terminal(f"{epoch.name}{ops}"),
                hint=_HINT,
            )


def _problems(
    epoch: Epoch, buffers: Mapping[str, Buffer], constants: Mapping[str, np.ndarray]
) -> Iterator[str]:
    try:
        if epoch.call is not None:
            yield from _call_problems(epoch.call, buffers, constants)
            return
        for group in epoch.groups or ():
            yield from _group_problems(group)
    except NpuscopeError as error:  # of a geometry or kernel that does not even have numbers
        yield error.message


# --- Units: words given and taken over a whole epoch ---


class StreamBalance(Wiring):
    """Words that pass, counted by what each convolution takes of its kernel stream."""

    def __init__(self, wiring: Wiring) -> None:
        self._into, self._words = wiring._into, {}
        self._kernel_words: dict[int, int] = {}

    def frames(self, conv: Convacc) -> int:
        return self.input_words(conv, 1) // self.kernel_words(conv)

    def kernel_words(self, conv: Convacc) -> int:
        words = self._kernel_words.get(conv.id)
        if words is None:
            words = self._kernel_words[conv.id] = KernelPort(conv, self._width(conv, 1)).words
        return words

    def feature_words(self, conv: Convacc) -> int:
        return FeaturePort(conv, self._width(conv, 0)).words

    def _width(self, unit: Unit, port: int) -> int:
        source = self.source(unit, port)
        return word_bytes(source) if source is not None else 1


def _group_problems(group: Group) -> Iterator[str]:
    flow = StreamBalance(wired(group))
    for unit in group.units:
        for port, words in _taken(unit, flow):
            supplied = flow.input_words(unit, port)
            if supplied != words:
                yield (
                    f"{unit.unit} {unit.id} expects {words} words at port {port}, but gets "
                    f"{supplied}"
                )


def _taken(unit: Unit, flow: StreamBalance) -> Iterator[tuple[int, int]]:
    """Words that a unit takes at each port, in whole frames."""
    match unit:
        case Streng():
            if unit.dir:
                yield 0, unit.total_elements
        case Convacc():
            unit_words.check_conv_size(unit)
            words = flow.kernel_words(unit)
            frames = flow.input_words(unit, 1) // words
            yield 1, frames * words
            yield 0, -(-frames // unit_words.tiles(unit)) * flow.feature_words(unit)
            yield 2, unit_words.sums_taken(unit, frames) * unit.out_elements
        case Arith():
            words = unit_words.arith_words(unit)
            frames = flow.input_words(unit) // words
            yield 0, frames * words
            if unit_words.takes_y(unit, flow.source(unit, 1) is not None):
                yield 1, frames * (unit.batchDepth if unit_words.broadcasts(unit) else words)
        case PoolUnit():
            unit_words.check_pool_size(unit)
            words = unit_words.pool_words(unit)
            yield 0, flow.input_words(unit) // words * words


# --- Software calls: a kernel for the types, shapes that follow from the inputs ---


def _call_problems(
    call: Call, buffers: Mapping[str, Buffer], constants: Mapping[str, np.ndarray]
) -> Iterator[str]:
    if call.kernel == UNKNOWN:
        return
    graph = call_graph(call, buffers, constants)
    op = graph.ops[0]
    if not has_kernel(graph, op):
        yield f"no kernel computes {call.kernel} on these types"
    stated = tuple(graph.tensor(name).shape for name in call.outputs)
    computed = spec(op).shape(graph, op)
    if stated != computed:
        yield f"{call.kernel} gives {list(computed)}, but its buffers have {list(stated)}"
