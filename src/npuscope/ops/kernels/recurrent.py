"""Recurrent layers in float, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from npuscope.graph.model import Graph, Op
from npuscope.ops.kernels import real_math
from npuscope.ops.kernels.functions import sigmoid
from npuscope.ops.kernels.step import Array, Step
from npuscope.ops.recurrent import Direction, RecurrentAttrs

# One step: what the inputs give to the gates, the state, and weights and biases of the state.
State = tuple[Array, ...]  # what is handed out, then what is kept inside
Cell = Callable[[Array, State, Array, Array], State]


def _lstm_cell(x: Array, state: State, weights: Array, bias: Array) -> State:
    """Gates in the order input, output, forget, cell."""
    hidden, cells = state
    gates = x + hidden @ weights.T + bias
    inlet, outlet, forget, fresh = np.split(gates, 4, axis=-1)
    cells = sigmoid(forget) * cells + sigmoid(inlet) * real_math.tanh(fresh)
    return sigmoid(outlet) * real_math.tanh(cells), cells


def _rnn_cell(x: Array, state: State, weights: Array, bias: Array) -> State:
    return (real_math.tanh(x + state[0] @ weights.T + bias),)


def _unrolled(graph: Graph, op: Op, cell: Cell) -> Step:
    attrs = op.attrs_as(RecurrentAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        x, weights, recurrent, bias, *states = inputs
        results = []
        for direction in range(weights.shape[0]):
            backward = attrs.direction is Direction.REVERSE or direction == 1
            half = bias.shape[1] // 2
            products = x @ weights[direction].T + bias[direction, :half]
            start = tuple(state[direction] for state in states)
            order = products[::-1] if backward else products
            walked = list(_walk(order, start, cell, recurrent[direction], bias[direction, half:]))
            hidden = [state[0] for state in walked]
            kept = [walked[-1][1]] if attrs.cells else []
            results.append(np.stack([*(hidden[::-1] if backward else hidden), *kept]))
        return np.stack(results, axis=1).astype(x.dtype)

    return step


def _walk(rows: Array, state: State, cell: Cell, weights: Array, bias: Array) -> Iterator[State]:
    for row in rows:
        state = cell(row, state, weights, bias)
        yield state


def lstm(graph: Graph, op: Op) -> Step:
    return _unrolled(graph, op, _lstm_cell)


def gru(graph: Graph, op: Op) -> Step:
    """Gates in the order update, reset, hidden."""
    reset_last = op.attrs_as(RecurrentAttrs).reset_last

    def cell(x: Array, state: State, weights: Array, bias: Array) -> State:
        hidden, units = state[0], state[0].shape[-1]
        first = x[:, : 2 * units] + hidden @ weights[: 2 * units].T + bias[: 2 * units]
        update, reset = np.split(sigmoid(first), 2, axis=-1)
        last, last_bias = weights[2 * units :], bias[2 * units :]
        if reset_last:
            inner = reset * (hidden @ last.T + last_bias)
        else:
            inner = (reset * hidden) @ last.T + last_bias
        fresh = real_math.tanh(x[:, 2 * units :] + inner)
        return ((1 - update) * fresh + update * hidden,)

    return _unrolled(graph, op, cell)


def rnn(graph: Graph, op: Op) -> Step:
    return _unrolled(graph, op, _rnn_cell)
