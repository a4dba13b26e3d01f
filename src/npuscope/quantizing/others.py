"""Tools of others that are used here: whether they are there, and what they say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

from npuscope.graph.model import AS_INT8

FLOAT_ONE = "quantize takes the float model; npuscope fix MODEL -o FIXED edits a quantized one"
DYNAMIC_ONE = (
    "its activations are quantized while it runs, so for an NPU it is a float network: quantize "
    f"the float model that it was made from; {AS_INT8}"
)
WEIGHTS_ONE = f"quantize takes the float model that it was made from; {AS_INT8}"
FRONT_END_ONE = (
    "the vendor's front end wrote this file from a quantized model: go on with that model "
    "(npuscope estimate, compile and fix take it), or quantize the float one"
)


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def quiet() -> Iterator[None]:
    """The tools of others print, and log to the root; what matters is in our report."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logger.setLevel(level)
