"""The library's pads in network.c, as the op Pad on views with the axes in the order of memory.

All axes are stated from the outermost in memory on. Along an axis the input is cut where an offset
in it is negative, and the output is filled where an offset in it is positive, all in bytes.
"""

from __future__ import annotations

from math import prod

from npuscope.errors import FileError
from npuscope.program.model import Buffer, Call
from npuscope.program.network_c.c_values import Value
from npuscope.program.network_c.library_reader import LibraryReader
from npuscope.program.network_c.parse_source import CallLine
from npuscope.program.network_c.read_head import address_of

_CONSTANT = 0
_ARGUMENTS = 20


def pad(reader: LibraryReader, line: CallLine) -> Call:
    values = line.arguments
    if len(values) != _ARGUMENTS or values[5] != _CONSTANT:
        return Call(line.name, (), ())  # reflected and repeated edges are in no public build
    element = values[6] if isinstance(values[6], int) and values[6] > 0 else 1
    kept, starts, ends, before, after, shape, steps = (
        reader.array(value) for value in (values[4], *values[11:17])
    )
    if not len(kept) == len(starts) == len(ends) == len(before) == len(after) == len(shape):
        raise FileError("the ranks of a pad differ", where=f"epoch {reader.epoch}")
    whole, cuts = _input(kept, starts, ends, element)
    pads = tuple(
        (max(first, 0) // step - cut, max(last, 0) // step - end)
        for first, last, step, (cut, end) in zip(before, after, steps, cuts, strict=True)
    )
    fill, is_float = _fill(reader, values[8])
    names = [
        _view(reader, values[place], sizes, element, is_float and element == 4)
        for place, sizes in enumerate((whole, tuple(shape)))
    ]
    arguments = (("pads", tuple(size for pair in pads for size in pair)), ("value", fill))
    return Call("Pad", (names[0],), (names[1],), (*arguments, ("numerics", "litert")))


def _input(
    kept: list[int], starts: list[int], ends: list[int], element: int
) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """Sizes of the dense input, and what is cut on both sides of each axis."""
    sizes: list[int] = []
    cuts: list[tuple[int, int]] = []
    step = element
    for size, first, last in zip(reversed(kept), reversed(starts), reversed(ends), strict=True):
        cut = (max(-first, 0) // step, max(-last, 0) // step)
        cuts.insert(0, cut)
        sizes.insert(0, size + sum(cut))
        step *= sizes[0]
    return tuple(sizes), cuts


def _fill(reader: LibraryReader, value: Value) -> tuple[float, bool]:
    """The value around, and whether it is a float: then its bits are handed over."""
    declared = reader.function.declared.get(str(value))
    number = declared.value if declared else value
    if not isinstance(number, int | float):
        raise FileError("the value of a pad is missing", where=f"epoch {reader.epoch}")
    return float(number), declared is not None and "float" in declared.type


def _view(
    reader: LibraryReader, place: Value, shape: tuple[int, ...], element: int, is_float: bool
) -> str:
    """The place as the pad sees it; it owns no memory."""
    declared = reader.function.declared.get(str(place))
    address = address_of(declared.value if declared else place)
    size = prod(shape) * element
    pool = reader.pools.locate(address, size)
    owner = reader.places.ref(address, reader.epoch).buffer
    name = f"epoch_{reader.epoch}.{len(reader.views)}"
    reader.views.append(
        Buffer(
            name,
            size,
            shape,
            element * 8,
            shape[-1],
            pool=pool.name,
            offset=address - pool.address,
            first=reader.epoch,
            last=reader.epoch,
            is_float=is_float,
            view_of=owner,
        )
    )
    return name
