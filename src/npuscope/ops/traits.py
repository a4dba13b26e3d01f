"""What can be true of an op for every machine. A row of the table has some of these."""

from __future__ import annotations

from enum import Enum, auto


class Trait(Enum):
    """`ops.table.having` gives the ops with a trait; no other module lists them."""

    # What a value of the result depends on.
    ELEMENTWISE = auto()  # the values at its own place in the operands
    FUNCTION = auto()  # of one value: for 8 bits a table can stand for the op
    ARITHMETIC = auto()  # of two numbers, with broadcasting
    COMPARISON = auto()  # of two numbers, true or false
    LOGIC = auto()  # of true and false
    CONVERSION = auto()  # the same number in another type or scale
    RESCALING = auto()  # a conversion between real numbers and integers with a scale

    # Where values go.
    MOVES = auto()  # results are values of the operands: quantization passes through unchanged
    VIEW = auto()  # the same values in the same order
    PARTS = auto()  # one tensor cut into parts, or parts joined into one
    INDEXED = auto()  # an operand holds the places that are read or written
    PICKS = auto()  # the largest or smallest of several values: comparing raw integers will do
    KEEPS_CHANNELS = auto()  # a channel of the result comes of the same channel of the operands
    SINGULAR = auto()  # zeros can make the result infinite or undefined
    JUMPS = auto()  # the least change of an operand may move the result by any distance

    # What it sums up.
    LAYER = auto()  # inputs are x, weights with the outputs first, and maybe a bias
    PRODUCT = auto()  # multiplies and adds: layers, products of two activations
    POOL = auto()  # windows of each channel
    REDUCES = auto()  # whole axes
    FINDS_PLACES = auto()  # results are places along an axis
    NORMALISES = auto()  # by statistics of the tensor itself
    RECURRENT = auto()  # keeps a state from step to step

    # What quantizers do with it.
    INTEGER_FORM = auto()  # they make it integer; other ops stay in float between conversions
