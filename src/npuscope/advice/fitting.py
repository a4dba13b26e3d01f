"""Which fixes make sense for an epoch, by its place in the program."""

from __future__ import annotations

from collections.abc import Callable

from npuscope.program.model import Epoch, Program


def is_fitting(fix_id: str, epoch: Epoch, program: Program) -> bool:
    """Fixes that are not in the table fit anywhere."""
    check = _PLACES.get(fix_id)
    return check is None or check(epoch, program)


def _reads_input(epoch: Epoch, program: Program) -> bool:
    return bool(epoch.call and set(epoch.call.inputs) & set(program.inputs))


def _makes_output(epoch: Epoch, program: Program) -> bool:
    return bool(epoch.call and set(epoch.call.outputs) & set(program.outputs))


def _is_inside(epoch: Epoch, program: Program) -> bool:
    return not (_reads_input(epoch, program) or _makes_output(epoch, program))


def _is_last(epoch: Epoch, program: Program) -> bool:
    """Its result is an output, as it is or dequantized."""
    if epoch.call is None or _makes_output(epoch, program):
        return epoch.call is not None
    made = set(epoch.call.outputs)
    readers = [e for e in program.executed if e.call and made & set(e.call.inputs)]
    return bool(readers) and all(
        e.call is not None and e.call.kernel == "Dequantize" and _makes_output(e, program)
        for e in readers
    )


_PLACES: dict[str, Callable[[Epoch, Program], bool]] = {
    "integer-input": _reads_input,
    "integer-output": _makes_output,
    "quantize-neighbours": _is_inside,
    "drop-softmax": _is_last,
}
