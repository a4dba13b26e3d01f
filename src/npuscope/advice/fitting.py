"""Which fixes make sense for an epoch, by its place in the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from npuscope.program.model import Epoch, Program
from npuscope.program.units import Streng


def is_fitting(fix_id: str, epoch: Epoch, program: Program) -> bool:
    """Fixes that are not in the table fit anywhere."""
    check = _PLACES.get(fix_id)
    return check is None or check(epoch, program)


def _reads_input(epoch: Epoch, program: Program) -> bool:
    return bool(_reads(epoch, program) & roots(program.inputs, program))


def _makes_output(epoch: Epoch, program: Program) -> bool:
    return bool(_makes(epoch, program) & roots(program.outputs, program))


def _is_inside(epoch: Epoch, program: Program) -> bool:
    return not (_reads_input(epoch, program) or _makes_output(epoch, program))


def _is_last(epoch: Epoch, program: Program) -> bool:
    """Its result is an output, as it is or dequantized."""
    if _makes_output(epoch, program):
        return True
    made = _makes(epoch, program)
    readers = [e for e in program.executed if made & _reads(e, program)]
    return bool(readers) and all(
        e.call is not None and e.call.kernel == "Dequantize" and _makes_output(e, program)
        for e in readers
    )


def _reads(epoch: Epoch, program: Program) -> set[str]:
    return roots(buffers_read(epoch), program)


def _makes(epoch: Epoch, program: Program) -> set[str]:
    return roots(buffers_made(epoch), program)


def buffers_read(epoch: Epoch) -> tuple[str, ...]:
    return epoch.call.inputs if epoch.call else _engines(epoch, 0)


def buffers_made(epoch: Epoch) -> tuple[str, ...]:
    return epoch.call.outputs if epoch.call else _engines(epoch, 1)


def _engines(epoch: Epoch, direction: int) -> tuple[str, ...]:
    engines = (unit for unit in epoch.units if isinstance(unit, Streng))
    return tuple(e.addr_base.buffer for e in engines if e.dir == direction)


def roots(names: Iterable[str], program: Program) -> set[str]:
    """Buffers by the name of the one they lie in: a reshape is the same bytes."""
    buffers = program.buffer_map()
    found = set()
    for name in names:
        while name in buffers and buffers[name].view_of:
            name = buffers[name].view_of
        found.add(name)
    return found


_PLACES: dict[str, Callable[[Epoch, Program], bool]] = {
    "integer-input": _reads_input,
    "integer-output": _makes_output,
    "quantize-neighbours": _is_inside,
    "drop-softmax": _is_last,
}
