"""Files of a build that go into a firmware: network.c, its header, blobs, and images of weights."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.errors import TargetError
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.program.app_applications import application_lines
from npuscope.program.app_outputs import border_shape, is_channel_first
from npuscope.program.ec_blob.binary import blob_name, write_binary, write_header
from npuscope.program.ec_blob.lower import binary_of
from npuscope.program.model import Buffer, Pool, Program, images
from npuscope.program.network_c.writer import network_c_text, network_h_text
from npuscope.program.network_c.writer_scope import float_text
from npuscope.program.weight_files import AddressedBytes, overlaid
from npuscope.structs import replace
from npuscope.text import c_comment, c_identifier, c_string, file_name
from npuscope.version import __version__

# --- The C side of a build: network.c, its header, and epoch-controller blobs ---

Files = dict[str, str | bytes]
NO_C = "no network.c was written"
DATA_ENDING = "_data_params.c"  # weights as C arrays, which hold no epochs


def code_files(program: Program, machine: Machine, name: str) -> tuple[tuple[str, ...], Files]:
    """C and blobs. Where blobs are impossible the CPU starts the epochs; where the runtime lacks
    something, no C is written."""
    try:
        blobs = blob_arrays(program, name)
        files: Files = {f"{name}_ecblobs.h": write_header(blobs)} if blobs else {}
        return (), files | _c_files(program, machine, name)
    except TargetError as error:
        note = f"no blobs were written, so the CPU starts the epochs of network.c: {_told(error)}"
    try:
        return (note,), _c_files(without_blobs(program), machine, name)
    except TargetError as error:
        return (f"{NO_C}: {_told(error)}",), {}


def _c_files(program: Program, machine: Machine, name: str) -> Files:
    return {
        f"{name}.c": network_c_text(program, machine, name),
        f"{name}.h": network_h_text(program, machine, name),
    }


def _told(error: TargetError) -> str:
    return f"{error.where}: {error.message}" if error.where else error.message


def without_blobs(program: Program) -> Program:
    epochs = tuple(replace(epoch, blob=None) for epoch in program.epochs)
    return replace(program, epoch_controller=False, epochs=epochs)


def blob_arrays(program: Program, name: str) -> dict[str, bytes]:
    """Epoch-controller code by array name; none when the CPU starts the epochs."""
    if not program.epoch_controller:
        return {}
    numbers = sorted({epoch.blob for epoch in program.executed if epoch.blob is not None})
    return {blob_name(name, n): write_binary(binary_of(program, n, name)) for n in numbers}


# --- Weight images: the bytes of each pool with parameters, as files to flash or to load ---

_PREFIX = "atonbuf"
_HEX_BYTES = 32
_WORDS_A_LINE = 4
_DATA, _END, _UPPER_ADDRESS = 0, 1, 4
_PAGE_BYTES = 0x10000
_ADDRESS_END = 1 << 32


def pool_images(program: Program) -> dict[str, bytes]:
    """File name -> image, from the pool's first byte to the last parameter; empty without any.
    What a virtual pool holds is in the images of its banks."""
    pools, buffers, data = program.pool_map(), program.buffer_map(), images(program)
    shared = [
        AddressedBytes(pools[home.pool].address + home.offset, np.ascontiguousarray(one).tobytes())
        for name, one in program.constants.items()
        if pools[(home := buffers[name]).pool].virtual
    ]
    result: dict[str, bytes] = {}
    for pool in program.pools:
        name = image_name(pool)
        if name in result:
            raise TargetError(f"two pools have the file name '{name}'", where=f"pool '{pool.name}'")
        if not pool.virtual:
            own = AddressedBytes(pool.address, data.get(pool.name, b""))
            result[name] = own.data if pool.relative else _with_shared(pool, own, shared)
    return result


def _with_shared(pool: Pool, own: AddressedBytes, shared: list[AddressedBytes]) -> bytes:
    """The image of a bank, with what virtual pools have in it."""
    end = pool.address + pool.size_bytes
    inside = [one for one in shared if one.address < end and pool.address < one.end]
    last = max([own.end, *(min(one.end, end) for one in inside)])
    zeros = AddressedBytes(pool.address, bytes(last - pool.address))
    return overlaid([zeros, own, *inside], pool.address, pool.size_bytes) if inside else own.data


def image_name(pool: Pool) -> str:
    return f"{_PREFIX}.{file_name(pool.file_name or pool.name)}.raw"


def data_files(program: Program, name: str) -> dict[str, str]:
    """Parameters for a linker (an array for each pool in C) and for a programmer (Intel HEX)."""
    files: dict[str, str] = {}
    arrays: list[str] = []
    for pool in program.pools:
        data = images(program).get(pool.name, b"")
        if data and any(b.is_param and b.pool == pool.name for b in program.buffers):
            files[f"{name}_data.{file_name(pool.file_name or pool.name)}.hex"] = hex_text(
                data, pool.address
            )
            # Words of eight bytes, low byte first, as the memory has them.
            label = f"_mem_pool_{c_identifier(pool.file_name or pool.name)}_{name}"
            words = np.frombuffer(data.ljust(-(-len(data) // 8) * 8, b"\0"), "<u8").tolist()
            rows = (words[at : at + _WORDS_A_LINE] for at in range(0, len(words), _WORDS_A_LINE))
            body = ",\n".join("  " + ",".join(f"0x{word:016x}" for word in row) for row in rows)
            arrays.append(
                f"/* {c_comment(pool.name)}: {len(data)} bytes for {pool.address:#010x} */\n"
                f"const uint32_t {label}_bytes = {len(data)};\n"
                f'__attribute__((aligned(64), section(".{name}_data.{c_identifier(pool.name)}")))\n'
                f"const uint64_t {label}[{len(words)}] = {{\n{body}\n}};\n"
            )
    note = (
        f"/* Parameters of {c_comment(name)}, one array per memory pool: link each into its "
        "pool. */"
    )
    files[f"{name}{DATA_ENDING}"] = "\n".join([note, "#include <stdint.h>", "", *arrays])
    return files


def hex_text(data: bytes, address: int) -> str:
    """The bytes as Intel HEX for `address`."""
    if address < 0 or address + len(data) > _ADDRESS_END:
        raise TargetError(f"{len(data)} bytes at {address:#x} do not fit into 32-bit addresses")
    lines: list[str] = []
    upper = -1
    for start, piece in _pieces(data, address):
        if start >> 16 != upper:
            upper = start >> 16
            lines.append(_record(_UPPER_ADDRESS, 0, upper.to_bytes(2, "big")))
        lines.append(_record(_DATA, start & 0xFFFF, piece))
    return "\n".join([*lines, _record(_END, 0, b""), ""])


def _pieces(data: bytes, address: int) -> list[tuple[int, bytes]]:
    """Lines of equal length; none crosses a 64 KiB border, where the upper address changes."""
    pieces = []
    place = 0
    while place < len(data):
        start = address + place
        room = min(_HEX_BYTES - start % _HEX_BYTES, _PAGE_BYTES - start % _PAGE_BYTES)
        pieces.append((start, data[place : place + room]))
        place += room
    return pieces


def _record(kind: int, address: int, data: bytes) -> str:
    body = bytes([len(data), *address.to_bytes(2, "big"), kind]) + data
    return f":{body.hex().upper()}{-sum(body) & 0xFF:02X}"


# --- app_config.h: what an application must know to feed a network and read its results ---

# The kind of an output (classes, heatmaps, boxes) is a guess from its shape alone.

# Fewer rows than this are unlikely to be a list of candidate boxes.
_MIN_BOXES = 20
_BOX_VALUES = 4
_MAX_CLASSES_OF_A_MAP = 256
_SCORES = ("Softmax", "LogSoftmax", "Sigmoid")


class Head(Struct, frozen=True):
    """The kind in one word, and the sizes that decoding needs."""

    kind: str
    numbers: tuple[tuple[str, int], ...] = ()


def guess_heads(graph: Graph) -> list[Head]:
    """One guess per output, in order."""
    several = len(graph.outputs) > 1
    return [_guess(graph, name, several) for name in graph.outputs]


def _guess(graph: Graph, name: str, several: bool) -> Head:
    shape = border_shape(graph, name)
    sizes = tuple(size for size in shape[1:] if size > 1)
    if len(sizes) <= 1:
        # Scores of classes end in a softmax; without one it may be an embedding too.
        length = sizes[0] if sizes else 1
        if length == 1:
            return Head("single_value", (("VALUES", 1),))
        # The op that makes an output, behind conversions and reshapes.
        makers = {output: op for op in graph.ops for output in op.outputs}
        op = makers.get(name)
        while op is not None and op.kind in having(Trait.VIEW, Trait.RESCALING):
            op = makers.get(op.inputs[0])
        if (op.kind if op is not None else "") in _SCORES:
            return Head("classification", (("CLASSES", length),))
        return Head("classification_or_embedding", (("VALUES", length),))
    if len(shape) == 4:
        _, height, width, channels = shape
        numbers = (("HEIGHT", height), ("WIDTH", width), ("CHANNELS", channels))
        inputs = [border_shape(graph, name) for name in graph.inputs]
        if several and channels >= _BOX_VALUES:
            return Head("boxes_on_a_grid", numbers)
        if any(image[1:3] == shape[1:3] for image in inputs if len(image) == 4):
            return Head("segmentation", numbers)
        if channels <= _MAX_CLASSES_OF_A_MAP:
            return Head("heatmaps", numbers)
        return Head("features", numbers)
    # A list of candidates, each with a box and maybe scores; either axis may be the list.
    count, values = max(shape[1:]), min(shape[1:])
    if count >= _MIN_BOXES and values == _BOX_VALUES:
        return Head("boxes", (("BOXES", count), ("VALUES", values)))
    if count >= _MIN_BOXES and values > _BOX_VALUES:
        return Head("boxes_with_scores", (("BOXES", count), ("VALUES", values)))
    return Head("table", (("ROWS", shape[1]), ("VALUES", shape[-1])))


Lines = list[str]
_C_TYPES = {8: "int8_t", 16: "int16_t", 32: "int32_t", 64: "int64_t"}


def app_config_text(
    program: Program, graph: Graph, name: str = "network", application: str = ""
) -> str:
    """A header of defines. The kind of a result is a guess from its shape, and says so."""
    network = c_identifier(name)
    buffers = program.buffer_map()
    shapes = {**_shapes(program.inputs, graph.inputs, graph)}
    shapes.update(_shapes(program.outputs, graph.outputs, graph))
    model = c_comment(program.model_file or program.name)
    lines = [
        f"/* {model}: written by npuscope {__version__}. */",
        "#ifndef APP_CONFIG_H",
        "#define APP_CONFIG_H",
        "",
        f"#define NN_NETWORK_NAME {c_string(network)}",
        f"#define NN_IN_NUM ({len(program.inputs)})",
        f"#define NN_OUT_NUM ({len(program.outputs)})",
        "",
        *_image(shapes[program.inputs[0]] if program.inputs else ()),
    ]
    for stem, names, tensors in (
        ("NN_IN", program.inputs, graph.inputs),
        ("NN_OUT", program.outputs, graph.outputs),
    ):
        for number, (buffer_name, tensor) in enumerate(zip(names, tensors, strict=True)):
            buffer = buffers[buffer_name]
            layout = "channel_first" if is_channel_first(graph, tensor) else _layout(buffer)
            lines += _tensor(f"{stem}_{number}", buffer, shapes[buffer_name], layout)
    lines += application_lines(graph, application)
    lines += _heads(guess_heads(graph))
    return "\n".join([*lines, "#endif", ""])


def _shapes(
    names: tuple[str, ...], tensors: tuple[str, ...], graph: Graph
) -> dict[str, tuple[int, ...]]:
    """Logical shapes of the graph's ends, under the names of their buffers."""
    return {b: border_shape(graph, t) for b, t in zip(names, tensors, strict=True)}


def _image(shape: tuple[int, ...]) -> Lines:
    """The first input as an image: the camera is set up from these."""
    if len(shape) != 4:
        return []
    _, height, width, channels = shape
    return [
        f"#define NN_HEIGHT ({height})",
        f"#define NN_WIDTH ({width})",
        f"#define NN_CHANNELS ({channels})",
        "",
    ]


def _tensor(stem: str, buffer: Buffer, shape: tuple[int, ...], layout: str) -> Lines:
    dimensions = ", ".join(str(size) for size in shape or (1,))
    lines = [
        f"/* {c_comment(buffer.name)} */",
        f"#define {stem}_TYPE {_c_type(buffer)}",
        f"#define {stem}_IS_FLOAT ({int(buffer.is_float)})",
        f"#define {stem}_IS_SIGNED ({int(buffer.signed)})",
        f"#define {stem}_RANK ({len(shape or (1,))})",
        f"#define {stem}_SHAPE {{{dimensions}}}",
        f"#define {stem}_LAYOUT {c_string(layout)}",
        f"#define {stem}_SIZE_BYTES ({buffer.size_bytes})",
    ]
    quant = buffer.quant
    if quant is not None and not buffer.is_float:
        lines += [
            f"#define {stem}_SCALE ({float_text(quant.scales[0])})",
            f"#define {stem}_ZERO_POINT ({int(quant.zero_points[0])})",
        ]
    return [*lines, ""]


def _c_type(buffer: Buffer) -> str:
    if buffer.is_float:
        return "float"
    signed = _C_TYPES.get(buffer.nbits, "int8_t")
    return signed if buffer.signed else f"u{signed}"


def _layout(buffer: Buffer) -> str:
    """How channels lie in memory."""
    if len(buffer.shape) < 3 or not 0 < buffer.batch < buffer.channels:
        return "channel_last"
    return "channel_first" if buffer.batch == 1 else f"blocks_of_{buffer.batch}_channels"


def _heads(heads: list[Head]) -> Lines:
    lines = [
        "/* What the results seem to be. This is a guess from shapes and last layers: check it",
        " * against the model's own description before relying on it. */",
    ]
    for number, head in enumerate(heads):
        lines.append(f"#define NN_OUT_{number}_GUESS {c_string(head.kind)}")
        lines += [f"#define NN_OUT_{number}_{key} ({value})" for key, value in head.numbers]
    return [*lines, ""]
