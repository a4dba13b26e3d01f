"""Library calls of network.c that move data by driven DMA (`LL_ATON_LIB_*`), as copies.

All of them are strided copies: the call keeps the operator's name, its arguments hold for each
copy (input, offsets, element bytes, shape, byte steps in and out).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from npuscope.errors import FileError
from npuscope.program.addresses import Copy, as_arguments
from npuscope.program.model import Buffer, Call
from npuscope.program.network_c.c_values import Struct, Value
from npuscope.program.network_c.library_reader import LibraryReader
from npuscope.program.network_c.parse_source import CallLine
from npuscope.program.network_c.read_head import address_of
from npuscope.program.network_c.read_pads import pad
from npuscope.program.network_c.read_software import AXES
from npuscope.program.network_c.vendor_functions import LIBRARY

_NO_OPERATOR = f"{LIBRARY}UNUSED"

Maker = Callable[[LibraryReader, CallLine], Call]
Steps = tuple[int, ...]


def _concat(reader: LibraryReader, line: CallLine) -> Call:
    parts, outputs = reader.table(line.arguments[0]), reader.table(line.arguments[2])
    axis = AXES.get(line.arguments[3] if isinstance(line.arguments[3], int) else 1, 3)
    target, base = reader.known(outputs[0])
    copies, names, first = [], [], 0
    for number, part in enumerate(parts):
        name, offset = reader.known(part)
        names.append(name)
        shape, steps_in = _walk(part, part.shape)
        # Steps of the whole, and the byte where a part begins that starts at `first` on `axis`.
        buffer = outputs[0]
        _, steps = _walk(buffer, buffer.shape)
        steps_out, start = steps, first * steps[axis - 1]
        element = part.nbits // 8
        copies.append(Copy(number, offset, base + start, element, shape, steps_in, steps_out))
        first += part.shape[axis]
    return Call("Concat", tuple(names), (target,), as_arguments(copies))


def _walk(buffer: Buffer, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(H, W, C) with the byte steps of a buffer that stores all or single channels together."""
    _, height, width, channels = _four(shape)
    element = buffer.nbits // 8
    if buffer.batch == channels or channels == 1:
        steps = (width * channels * element, channels * element, element)
    elif buffer.batch == 1:
        steps = (width * element, element, height * width * element)
    else:
        raise FileError(f"buffer '{buffer.name}': channel blocks of {buffer.batch} in a copy")
    return (height, width, channels), steps


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (4 - len(shape)) + shape


def _transpose(reader: LibraryReader, line: CallLine) -> Call:
    """By the engines: the place of each axis of the input among those of the output."""
    return _permuted(reader, line, reader.array(line.arguments[4]))


def _transpose_by_cpu(reader: LibraryReader, line: CallLine) -> Call:
    """By the CPU: for each axis of the output, which one of the input it is."""
    order = reader.array(line.arguments[4])
    return _permuted(reader, line, [order.index(axis) for axis in range(len(order))])


def _permuted(reader: LibraryReader, line: CallLine, position: list[int]) -> Call:
    source, target = reader.first_row(line.arguments[0]), reader.first_row(line.arguments[2])
    shape = reader.array(source.fields["shape"])
    steps_in, steps_out = reader.array(line.arguments[1]), reader.array(line.arguments[3])
    if not len(shape) == len(steps_in) == len(steps_out) == len(position):
        raise FileError("the ranks of a transpose differ", where=f"epoch {reader.epoch}")
    moved = tuple(steps_out[axis] for axis in position)
    names, starts = zip(*(_place(reader, row) for row in (source, target)), strict=True)
    nbits = source.fields.get("nbits", 8)
    element = nbits // 8 if isinstance(nbits, int) else 1
    copy = Copy(0, starts[0], starts[1], element, tuple(shape), tuple(steps_in), moved)
    return Call("Transpose", (names[0],), (names[1],), as_arguments([copy]))


def _cast(reader: LibraryReader, line: CallLine) -> Call:
    source, target = (reader.table(argument)[0] for argument in line.arguments[:2])
    return Call("Cast", (reader.view(source, 0),), (reader.view(target, 1),))


def _slice(reader: LibraryReader, line: CallLine) -> Call:
    """Every `step`-th element from `start` to `end` on each axis."""
    source, target = reader.first_row(line.arguments[0]), reader.first_row(line.arguments[2])
    steps_in, steps_out = reader.array(line.arguments[1]), reader.array(line.arguments[3])
    starts, ends, every = (reader.array(value) for value in line.arguments[5:8])
    axes = list(zip(starts, ends, every, steps_in, steps_out, strict=True))
    if any(step < 1 or start < 0 for start, _, step, _, _ in axes):
        raise FileError("a slice goes backwards", where=f"epoch {reader.epoch}")
    (name, start_in), (target_name, start_out) = (_place(reader, row) for row in (source, target))
    nbits = source.fields.get("nbits", 8)
    copy = Copy(
        0,
        start_in + sum(start * step for start, _, _, step, _ in axes),
        start_out,
        nbits // 8 if isinstance(nbits, int) else 1,
        tuple(max(0, -(-(end - start) // step)) for start, end, step, _, _ in axes),
        tuple(step * inner for _, _, step, inner, _ in axes),
        tuple(outer for *_, outer in axes),
    )
    return Call("Slice", (name,), (target_name,), as_arguments([copy]))


def _rows_of_bytes(reader: LibraryReader, line: CallLine) -> Call:
    """Rows of some bytes, so many bytes apart in the input; they follow each other in the output.

    The engines move as many rows as the call says, the CPU as many as the output has room for: the
    compiler states the same number both ways.
    """
    sizes = [value for value in line.arguments[2:7] if isinstance(value, int)]
    if len(sizes) < 5 or min(sizes) < 1 or sizes[0] != sizes[1] * sizes[2]:
        raise FileError("the sizes of a slice do not fit", where=f"epoch {reader.epoch}")
    _, width, rows, step, _ = sizes
    (name, start), (target, start_out) = (
        _place(reader, reader.first_row(value)) for value in line.arguments[:2]
    )
    copy = Copy(0, start, start_out, 1, (rows, width), (step, 1), (width, 1))
    return Call("Slice", (name,), (target,), as_arguments([copy]))


def _flat(reader: LibraryReader, line: CallLine) -> Call:
    """The input's bytes, one output after the other."""
    return _parts(reader, line.arguments[0], line.arguments[1], _flat_walk)


def _split(reader: LibraryReader, line: CallLine) -> Call:
    """Parts along an axis of the network; the case tells how input and outputs lie in memory."""
    source, in_rows, outputs, _, rank, axis, _, case = line.arguments[:8]
    if not isinstance(axis, int) or not isinstance(rank, int) or not 0 <= axis < rank:
        raise FileError("a split has no such axis", where=f"epoch {reader.epoch}")
    if case in _FLAT_CASES:
        return _parts(reader, source, outputs, _flat_walk)
    if case in _BLOCK_CASES:
        return _parts(reader, source, outputs, _block_walk)
    if case not in _AXIS_CASES:
        raise FileError(f"a split of case {case} is unknown", where=f"epoch {reader.epoch}")
    # The axes in the order of memory: as the network has them, or with channels last.
    order = list(range(rank))
    if in_rows not in (0, "false") and rank > 2:
        order = [*range(rank - 3), rank - 2, rank - 1, rank - 3]
    return _parts(reader, source, outputs, partial(_axis_walk, axis=axis, order=order))


_FLAT_CASES, _AXIS_CASES, _BLOCK_CASES = range(5, 11), range(3), (3, 4)
# Of a part, in elements: its sizes, its steps in the whole and in itself, where the next begins.
Walk = tuple[Steps, Steps, Steps, int]


def _parts(
    reader: LibraryReader,
    source: Value,
    outputs: Value,
    walk: Callable[[Steps, Steps, int], Walk],
) -> Call:
    whole = reader.first_row(source)
    nbits = whole.fields.get("nbits", 8)
    element = nbits // 8 if isinstance(nbits, int) else 1
    name, first = _place(reader, whole)
    shape = tuple(reader.array(whole.fields["shape"]))
    copies, targets = [], []
    for number, part in enumerate(reader.rows(outputs)):
        target, start = _place(reader, part)
        batch = part.fields.get("batch", 1)
        sizes, steps_in, steps_out, length = walk(
            shape,
            tuple(reader.array(part.fields["shape"])),
            batch if isinstance(batch, int) and batch > 0 else 1,
        )
        ways = [tuple(step * element for step in steps) for steps in (steps_in, steps_out)]
        copies.append(Copy(0, first, start, element, sizes, ways[0], ways[1], number))
        targets.append(target)
        first += length * element
    return Call("Split", (name,), tuple(targets), as_arguments(copies))


def _flat_walk(whole: Steps, part: Steps, batch: int) -> Walk:
    count = prod(part)
    return (count,), (1,), (1,), count


def _axis_walk(whole: Steps, part: Steps, batch: int, axis: int, order: list[int]) -> Walk:
    place = order.index(axis)
    inner = prod(whole[one] for one in order[place + 1 :])
    outer = prod(whole[one] for one in order[:place])
    row = part[axis] * inner
    return (outer, row), (whole[axis] * inner, 1), (row, 1), row


def _block_walk(whole: Steps, part: Steps, batch: int) -> Walk:
    """All channels of a pixel together in the whole, in blocks of `batch` in the part."""
    channels, pixels = whole[-3], prod(whole[-2:])
    sizes = (part[-3] // batch, pixels, batch)
    return sizes, (batch, channels, 1), (pixels * batch, batch, 1), part[-3]


def _place(reader: LibraryReader, row: Struct) -> tuple[str, int]:
    start = row.fields.get("offset_start", 0)
    address = address_of(row.fields["addr_base"]) + (start if isinstance(start, int) else 0)
    place = reader.places.ref(address, reader.epoch)
    return place.buffer, place.offset


def _depth_to_space(reader: LibraryReader, line: CallLine) -> Call:
    """Channels are (row of block, column of block, channel)."""
    source, target = reader.table(line.arguments[0])[0], reader.table(line.arguments[2])[0]
    shape, deep, image = _block_walks(source, target, line)
    return _block_call("DepthToSpace", reader, (source, deep), (target, image), shape)


def _space_to_depth(reader: LibraryReader, line: CallLine) -> Call:
    source, target = reader.table(line.arguments[0])[0], reader.table(line.arguments[2])[0]
    shape, deep, image = _block_walks(target, source, line)
    return _block_call("SpaceToDepth", reader, (source, image), (target, deep), shape)


def _block_call(
    kernel: str,
    reader: LibraryReader,
    source: tuple[Buffer, Steps],
    target: tuple[Buffer, Steps],
    shape: Steps,
) -> Call:
    (name, start), (target_name, start_out) = reader.known(source[0]), reader.known(target[0])
    copy = Copy(0, start, start_out, source[0].nbits // 8, shape, source[1], target[1])
    return Call(kernel, (name,), (target_name,), as_arguments([copy]))


def _block_walks(deep: Buffer, image: Buffer, line: CallLine) -> tuple[Steps, Steps, Steps]:
    """Sizes of (h, w, block row, block column, c), and the steps in both buffers."""
    sizes = [value if isinstance(value, int) else 2 for value in line.arguments[3:5]]
    block = sizes[0], sizes[-1]
    (height, width, channels), steps = _depth_steps(deep, block)
    rows, columns, elements = _walk(image, image.shape)[1]
    steps_image = (block[0] * rows, block[1] * columns, rows, columns, elements)
    return (height, width, *block, channels), steps, steps_image


def _depth_steps(source: Buffer, block: tuple[int, int]) -> tuple[tuple[int, int, int], Steps]:
    """(H, W, C) of the result's channels; steps for (h, w, block row, block column, c)."""
    _, height, width, deep = _four(source.shape)
    channels, element = deep // (block[0] * block[1]), source.nbits // 8
    if source.batch == deep:
        pixel = deep * element
        steps = (width * pixel, pixel, block[1] * channels * element, channels * element, element)
    elif source.batch == channels:
        plane = height * width * channels * element
        steps = (width * channels * element, channels * element, block[1] * plane, plane, element)
    elif source.batch == 1:
        plane = height * width * element
        steps = (width * element, element, block[1] * channels * plane, channels * plane, plane)
    else:
        raise FileError(f"blocks of pixels in channel blocks of {source.batch} are not supported")
    return (height, width, channels), steps


def _depth_to_space_by_cpu(reader: LibraryReader, line: CallLine) -> Call:
    return _blocks_by_cpu("DepthToSpace", reader, line, line.arguments[6] in (0, "DCR"))


def _space_to_depth_by_cpu(reader: LibraryReader, line: CallLine) -> Call:
    return _blocks_by_cpu("SpaceToDepth", reader, line, True)


def _blocks_by_cpu(kernel: str, reader: LibraryReader, line: CallLine, blocks_first: bool) -> Call:
    """Byte steps of all axes (N, C, H, W) are given, and the sizes of a block."""
    sides = [reader.first_row(line.arguments[0]), reader.first_row(line.arguments[2])]
    steps = [reader.array(line.arguments[1]), reader.array(line.arguments[3])]
    deep, image = (0, 1) if kernel == "DepthToSpace" else (1, 0)
    number, depth, height, width = reader.array(sides[deep].fields["shape"])
    block = [value if isinstance(value, int) and value > 0 else 1 for value in line.arguments[4:6]]
    rows, columns = block
    channels = depth // (rows * columns)
    n, c, h, w = steps[deep]
    # Channels are (row of block, column of block, channel), or the channel comes first.
    ways = (columns * channels, channels, 1) if blocks_first else (columns, 1, rows * columns)
    deep_steps = (n, h, w, *(way * c for way in ways))
    n, c, h, w = steps[image]
    image_steps = (n, rows * h, columns * w, h, w, c)
    (name, start), (target, start_out) = (_place(reader, side) for side in sides)
    nbits = sides[0].fields.get("nbits", 8)
    pair = (deep_steps, image_steps) if deep == 0 else (image_steps, deep_steps)
    shape = (number, height, width, rows, columns, channels)
    element = nbits // 8 if isinstance(nbits, int) else 1
    copy = Copy(0, start, start_out, element, shape, *pair)
    return Call(kernel, (name,), (target,), as_arguments([copy]))


# By the library's function behind LL_ATON_LIB_; `vendor_functions` names those that are not read.
OPERATORS: dict[str, Maker] = {
    "Concat": _concat,
    "DMA_Transpose": _transpose,
    "Transpose": _transpose_by_cpu,
    "Slice": _slice,
    "DMA_Outputs_Slice_SplitLike": _rows_of_bytes,
    "Split": _split,
    "DMA_Outputs_Flat_Copy": _flat,
    "Cast": _cast,
    "DMA_DepthToSpace": _depth_to_space,
    "DMA_SpaceToDepth": _space_to_depth,
    "SW_DepthToSpace": _depth_to_space_by_cpu,
    "SW_SpaceToDepth": _space_to_depth_by_cpu,
    "Pad": pad,
    "Pad_Standard": pad,
}


def library_call(reader: LibraryReader) -> Call | None:
    """The function's library call; None where it has none."""
    for statement in reader.function.statements:
        if not isinstance(statement, CallLine) or statement.name == _NO_OPERATOR:
            continue
        if statement.name.startswith(LIBRARY):
            make = OPERATORS.get(statement.name.removeprefix(LIBRARY))
            return make(reader, statement) if make else Call(statement.name, (), ())
    return None
