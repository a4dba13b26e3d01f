"""The formats that npuscope reads, one row each: whole files, their damage, who reads them.

Whole files are made here by code, small, so that a case takes milliseconds.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import npuscope
import report_texts
from advice.sweep import samples as sweeps
from boards import pump
from boards.played import Played
from boards.pump import ClientEnd
from fake_device import FakeDevice
from fuzz import mutate, mutate_models, mutate_numbers
from fuzz.engine import FINISHED_CODES, Command, Target
from fuzz.mutate import BINARY, BYTES, JSON, JSON_LINES, TEXT, TOML, Mutator
from fuzz.own_models import onnx_float, onnx_with_functions
from fuzz.targets_ethos_u import ETHOS_U
from fuzz.targets_manycore import MANYCORE, prepare_manycore
from identify.test_identify import BINARIES, CSV, MDESC, MPOOL, TEXTS
from loadable import samples as images
from models import Net, TfliteWriter, conv_net, dense_net, mobilenet_like, to_onnx, to_tflite
from models_onnx import OnnxWriter
from models_onnx_cases import CASES as ODD_ONNX
from models_onnx_ops import CASES as ONNX_OPS
from models_tflite import RELU
from npuscope.boards.client_exchange import Timeouts
from npuscope.boards.device import CounterOption, Request
from npuscope.boards.remote import RemoteBoard
from npuscope.boards.server import VirtualBoard
from npuscope.boards.server_run import ServerTiming
from npuscope.cli.main import main
from npuscope.files.load import load_model
from npuscope.loadable import firmware_map
from npuscope.loadable.layout import Trailer
from npuscope.machine import load as machine_files
from npuscope.program.ec_blob.assembly import disassemble
from npuscope.program.ec_blob.binary import EcBinary, read_header, write_binary
from npuscope.program.ec_blob.instructions import Irq, Label
from program.c_info.small import document
from program.ec_blob.epoch_text import CONVOLUTION, COPY
from program.ec_blob.test_binary import ALL as CONTAINERS
from program.test_quant_json import DOCUMENT as QUANT_JSON

RECORDED = Path(__file__).parents[1] / "boards" / "recorded"


def _commands(*rows: str, weight: int = 10) -> tuple[Command, ...]:
    return tuple(Command(words, weight) for words in rows)


# Models


def _tflite_models(side: Path) -> list[bytes]:
    nets = [
        conv_net(),
        conv_net(size=5, channels=1, out=7, kernel=5, stride=2, activation="none"),
        conv_net(depthwise=True, activation="relu6"),
        dense_net(),
        mobilenet_like(size=6, width=4),
    ]
    return [*(to_tflite(net) for net in nets), *(_tflite_op(*row) for row in _TFLITE_OPS)]


# Operator, options, shape of its result, constants behind its input (8x8x4, int8).
_TFLITE_OPS: tuple[tuple[str, dict[str, Any], tuple[int, ...], list[Any]], ...] = (
    ("RESHAPE", {"newShape": [1, 256]}, (1, 256), [np.array([1, 256], np.int32)]),
    ("MAX_POOL_2D", {"filterHeight": 2, "filterWidth": 2, "strideH": 2, "strideW": 2},
     (1, 4, 4, 4), []),
    ("AVERAGE_POOL_2D", {"filterHeight": 8, "filterWidth": 8, "padding": 1}, (1, 1, 1, 4), []),
    ("TRANSPOSE", {}, (1, 4, 8, 8), [np.array([0, 3, 1, 2], np.int32)]),
    ("PAD", {}, (1, 10, 10, 4), [np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)]),
    ("STRIDED_SLICE", {}, (1, 4, 4, 4), [np.array(row, np.int32) for row in (
        [0, 0, 0, 0], [1, 8, 8, 4], [1, 2, 2, 1])]),
    ("MEAN", {"keepDims": True}, (1, 1, 1, 4), [np.array([1, 2], np.int32)]),
    ("RESIZE_BILINEAR", {"halfPixelCenters": True}, (1, 16, 16, 4), [np.array([16, 16], np.int32)]),
    ("RESIZE_NEAREST_NEIGHBOR", {}, (1, 16, 16, 4), [np.array([16, 16], np.int32)]),
    ("SOFTMAX", {}, (1, 8, 8, 4), []),
    ("LOGISTIC", {}, (1, 8, 8, 4), []),
    ("GATHER", {"axis": 3}, (1, 8, 8, 2), [np.array([0, 2], np.int32)]),
    ("SLICE", {}, (1, 8, 4, 4), [np.array(row, np.int32) for row in ([0, 0, 2, 0], [1, 8, 4, 4])]),
    ("CUSTOM:Mine", {}, (1, 8, 8, 4), []),
)  # fmt: skip


def _tflite_op(
    kind: str, options: dict[str, Any], shape: tuple[int, ...], constants: list[Any]
) -> bytes:
    """A convolution, the operator, an addition to itself."""
    w = TfliteWriter()
    x = w.tensor("x", (1, 8, 8, 3), scale=0.02, zero_point=3)
    c = w.tensor("c", (1, 8, 8, 4), scale=0.05, zero_point=-128)
    kernel = np.arange(4 * 9 * 3).reshape(4, 3, 3, 3).astype(np.int8)
    weights = w.constant("w", kernel, scale=(0.01, 0.02, 0.03, 0.04))
    bias = w.constant("b", np.arange(4, dtype=np.int32), scale=(2e-4, 4e-4, 6e-4, 8e-4))
    w.op("CONV_2D", [x, weights, bias], [c], fusedActivationFunction=RELU)
    scale = 1 / 256 if kind in ("SOFTMAX", "LOGISTIC") else 0.05
    y = w.tensor("y", shape, scale=scale, zero_point=-128)
    w.op(
        kind, [c, *(w.constant(f"k{i}", data) for i, data in enumerate(constants))], [y], **options
    )
    z = w.tensor("z", shape, scale=0.1, zero_point=4)
    w.op("ADD", [y, y], [z])
    return w.finish([x], [z])


def _onnx_models(side: Path) -> list[bytes]:
    nets = [conv_net(), conv_net(depthwise=True), dense_net(), mobilenet_like(size=6, width=4)]
    cases = [build() for build in ODD_ONNX.values()]
    own = [onnx_with_functions(), onnx_with_functions(nested=True), onnx_float()]
    return [*(to_onnx(net) for net in nets), *own, *cases, *map(_onnx_op, ONNX_OPS.values())]


def _onnx_op(case: Any) -> bytes:
    w = OnnxWriter(case.opset)
    rng = np.random.default_rng(3)
    y = case.build(w, w.qdq(w.input("x", case.shape), 0.031, 3), rng)
    w.qdq(y, case.scale, case.zero_point)
    w.dequantize(w.quantize(y, case.scale), case.scale, output="y")
    return w.finish({"y": None})


MODEL_COMMANDS = (
    *_commands("estimate {file}", "explain {file}", "compile {file} -o {out}", weight=20),
    *_commands("estimate {file} --json", "explain {file} --json", "lint {file}", "profile {file}"),
    *_commands("profile {file} --json", "inspect {file} --json"),
    *_commands("manycore compile -model {file} -o {out}", "export {file} --netron {out}.onnx"),
    *_commands("compile {file} -o {out} --no-epoch-controller --generation 2.2"),
    *_commands("estimate {file} --html {out}.html", "compare {file} --b generation=2.2", weight=4),
    *_commands("estimate {file} --generation open", "estimate {file} --as-int8"),
    *_commands("gate {file} --max total_ms=1 --json", "export {file} --model-explorer {out}.json"),
    *_commands("profile {file} --csv {out}.csv --trace {out}.t --save {out}.json", weight=4),
    *_commands("validate {file} --seeds 1", "bisect {file} --json", weight=16),
)


def _editing(ending: str) -> tuple[Command, ...]:
    """Verbs that write a model of the same format."""
    return _commands(
        f"fix {{file}} -o {{out}}{ending} --seeds 1",
        f"fix {{file}} --all -o {{out}}{ending} --seeds 1 --json",
        f"quantize {{file}} --data random --samples 4 -o {{out}}{ending}",
        weight=14,
    )


TFLITE_COMMANDS = (*MODEL_COMMANDS, *_editing(".tflite"))
ONNX_COMMANDS = (*MODEL_COMMANDS, *_editing(".onnx"))
TFLITE = (*mutate_models.TFLITE, *(mutate_numbers.tflite_numbers,) * 12)
ONNX = (
    *mutate_models.ONNX,
    *(mutate_numbers.onnx_numbers,) * 12,
    *(mutate_numbers.onnx_functions,) * 2,
)


# What compilers leave: the files of two builds, one started by the CPU, one by the controller


def _build_file(*names: str) -> Callable[[Path], list[bytes]]:
    return lambda side: [(side / name).read_bytes() for name in names]


def _blobs(side: Path) -> list[bytes]:
    return list(read_header((side / "build" / "network_ecblobs.h").read_text()).values())


def _as_json(*trees: Any) -> Callable[[Path], list[bytes]]:
    return lambda side: [json.dumps(tree, indent=1).encode() for tree in trees]


def _texts(*texts: str) -> Callable[[Path], list[bytes]]:
    return lambda side: [text.encode() for text in texts]


C_INFOS = (document(), document("2.2.0-77"), document(controlled=True))
SOURCE_COMMANDS = _commands(
    "estimate {file}", "explain {file}", "profile {file}", "inspect {file}", "compare {file}",
    "estimate {file} --json", "inspect {file} --json", "explain {file} --model {side}/net.tflite",
    "estimate {file} --set clocks.npu_mhz=800",
)  # fmt: skip
FOLDER_COMMANDS = _commands(
    "inspect {dir}",
    "inspect {dir} --json",
    "estimate {dir}",
    "checklist {dir}",
    "explain {dir}",
    "compare {dir} {side}/build",
    "checklist {dir} --json",
    "profile {dir} --json",
    "export {dir} --model {side}/net.tflite --model-explorer {out}.json",
) + _commands("validate {dir} --model {side}/net.tflite --seeds 1", weight=3)
PACKAGE_COMMANDS = _commands(
    "package {dir} -o {out} --parse-only", "checklist {dir}", "inspect {dir} --json",
    "package {dir} -o {out} --parse-only --json",
)  # fmt: skip
LOG_COMMANDS = _commands(
    "inspect {file}", "inspect {file} --json", "profile --connect log:{file}",
    "compare log:{file} {side}/net.tflite", "profile --connect log:{file} -c {side}/build --json",
    "gate log:{file} --max total_ms=1", "profile --connect log:{file} --vendor-figures",
    "profile {side}/net.tflite --connect log:{file}",
)  # fmt: skip


# Machines and their parts

MACHINE = Path(machine_files.__file__).parent / "stm32n6.toml"
FIRMWARE_MAP = Path(firmware_map.__file__).parent / "firmware_maps" / "stm32n6570-dk.toml"
ART_PROFILES = (
    {
        "Globals": {},
        "Profiles": {
            "default": {"memory_pool": "./ours.mpool", "options": "-O3 --Omax-ca-pipe 4 --Os"},
            "other": {"options": "--optimization 1 --load-mdesc ours.mdesc"},
        },
    },
    {
        "Globals": {"compiler": "x"},
        "Profiles": {"default": {"memory_desc": "ours.mdesc", "options": "--all-buffers-info"}},
    },
)


# Images that are loaded at run time: damage under a checksum that fits again


def _under_the_seal(data: bytes, rng: Random) -> bytes:
    changed = rng.choice(BINARY)(data, rng)
    return images.resealed(changed) if len(changed) > Trailer.BYTES else changed


def _images(side: Path) -> list[bytes]:
    return [
        images.image(),
        images.image(trailer=False),
        images.build(images.Sample(split=True))[0],
        images.image(flash_relocation=True),
    ]


# Arrays


def _arrays(side: Path) -> list[bytes]:
    rng = np.random.default_rng(1)
    made = [
        rng.integers(-128, 128, (1, 8, 8, 3)).astype(np.int8),
        rng.normal(size=(1, 8, 8, 3)).astype(np.float32),
        np.zeros((1, 8, 8, 3), np.complex64),
        np.asfortranarray(rng.integers(0, 9, (1, 8, 8, 3)).astype(np.int64)),
        np.array(["a", "b"]),
        np.array(3.0),
    ]
    return [_npy(array) for array in made]


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


# Samples and labels of a user: 6 of the network side/dense.tflite, which takes 16 numbers


def _tables(side: Path) -> list[bytes]:
    rng = np.random.default_rng(2)
    rows = [[f"{value:.3f}" for value in rng.normal(size=16)] for _ in range(6)]
    labels = ["0", "1", "2", "3", "cat", "dog"]
    head = ",".join([*(f"x{n}" for n in range(16)), "label"])
    plain = "\n".join(",".join(row) for row in rows)
    pairs = zip(rows, labels, strict=True)
    named = "\n".join([head, *(",".join([*row, label]) for row, label in pairs)])
    return [plain.encode(), named.encode()]


def _label_files(side: Path) -> list[bytes]:
    whole = "\n".join("012301")
    reals = "\n".join(f"{n / 7:.5f}" for n in range(6))
    return [whole.encode(), f"label\n{whole}\n".encode(), reals.encode(), b"cat\ndog\n" * 3]


def _archives(side: Path) -> list[bytes]:
    rng, rows = np.random.default_rng(3), []
    samples = rng.normal(size=(6, 16)).astype(np.float32)
    for arrays in ({"x": samples, "labels": np.arange(6) % 4}, {"x": samples, "y": np.arange(6.0)}):
        for save in (np.savez, np.savez_compressed):
            out = io.BytesIO()
            save(out, **arrays)  # type: ignore[arg-type]
            rows.append(out.getvalue())
    return rows


def _pictures(side: Path) -> list[bytes]:
    from PIL import Image

    rng, rows = np.random.default_rng(4), []
    for mode, kind in (("RGB", "PNG"), ("L", "PNG"), ("P", "GIF"), ("RGB", "BMP"), ("RGB", "JPEG")):
        pixels = rng.integers(0, 256, (9, 11, 3), np.uint8)
        out = io.BytesIO()
        Image.fromarray(pixels).convert(mode).save(out, kind)
        rows.append(out.getvalue())
    return rows


TABLE_COMMANDS = _commands(
    "validate {side}/dense.tflite --data {file}",
    "validate {side}/dense.tflite --data {file} --task regression --json",
    "validate {side}/dense.tflite --data {file} --task classification --limit 3",
)
LABEL_COMMANDS = _commands(
    "validate {side}/dense.tflite --data {side}/samples.csv --labels {file}",
    "validate {side}/dense.tflite --data {side}/samples.csv --labels {file} --task regression",
    "validate {side}/dense.tflite --data {side}/samples.csv --labels {file} --task anomaly",
)
PICTURE_COMMANDS = _commands(
    "validate {side}/conv.tflite --data {dir} --task classification",
    "validate {side}/conv.tflite --data {dir} --task segmentation --labels {dir} --resize crop",
)


def _npy_header(data: bytes, rng: Random) -> bytes:
    """The dictionary in front of the numbers, its length made right again."""
    if len(data) < 10:
        return data
    (size,) = struct.unpack_from("<H", data, 8)
    head = rng.choice((mutate.tokens, mutate.numbers))(data[10 : 10 + size], rng)
    return data[:8] + struct.pack("<H", len(head) % 65536) + head + data[10 + size :]


# Folders: names and contents as one JSON object, so that the same damage works on both


def _folders(side: Path) -> list[bytes]:
    return [_folder_bytes(side / name) for name in ("build", "plain", "plain_c")]


def _folder_bytes(folder: Path) -> bytes:
    files = {p.name: base64.b64encode(p.read_bytes()).decode() for p in sorted(folder.iterdir())}
    return json.dumps(files).encode()


def _odd_folder(data: bytes, rng: Random) -> bytes:
    """A file lost, empty, cut, in the place of another, twice, or damaged as its kind is."""
    files = {name: base64.b64decode(body) for name, body in json.loads(data).items()}
    name, other = rng.choice(list(files)), rng.choice(list(files))
    edit = rng.randrange(6)
    if edit == 0:
        del files[name]
    elif edit == 1:
        files[name] = b""
    elif edit == 2:
        files[name], files[other] = files[other], files[name]
    elif edit == 3:
        files[rng.choice(("", "other_", "network_", ".")) + name] = files[name]
    else:
        kinds = {".json": JSON, ".c": TEXT, ".h": TEXT, ".txt": TEXT, ".csv": TEXT, ".mpool": JSON}
        files[name] = rng.choice(kinds.get(Path(name).suffix, BYTES))(files[name], rng)
    return json.dumps({n: base64.b64encode(b).decode() for n, b in files.items()}).encode()


def _lay_folder(folder: Path, data: bytes) -> None:
    try:
        files = json.loads(data)
        rows = [(name, base64.b64decode(body)) for name, body in files.items()]
    except (ValueError, AttributeError, TypeError):
        return  # a smaller case may not be a folder any more
    for name, body in rows:
        (folder / name).write_bytes(body)


# The wire: what a board hears, and what its client hears


def _hosts(_: Path) -> list[bytes]:
    """What the vendor's clients sent."""
    found = [json.loads(path.read_text()) for path in sorted(RECORDED.glob("*.json"))]
    return [zlib.decompress(base64.b64decode(record["host"])) for record in found]


def _packets(data: bytes, rng: Random) -> bytes:
    """Packets lost, doubled, swapped, or with another message inside."""
    size = rng.choice((33, 34))
    rows = [data[at : at + size] for at in range(0, len(data), size)]
    if not rows:
        return data
    at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
    edit = rng.randrange(5)
    if edit == 0:
        del rows[at]
    elif edit == 1:
        rows.insert(other, rows[at])
    elif edit == 2:
        rows[at], rows[other] = rows[other], rows[at]
    else:
        rows[at] = _odd_packet(rows[at], size - 32, rng)
    return b"".join(rows)


def _odd_packet(packet: bytes, head: int, rng: Random) -> bytes:
    inner = mutate.protobuf(packet[head:], rng)[:32].ljust(32, b"\0")
    return packet[:head] + inner


WIRE: tuple[Mutator, ...] = (*BINARY, *(_packets,) * 8)
_QUICK = ServerTiming(idle=0.05, silence=0.01, packet_gap=0.01, message_gap=0.01)


def hear_a_host(folder: Path, file: Path) -> None:
    """A board that hears these bytes; whatever they are, it waits for the next client."""
    device = FakeDevice()
    VirtualBoard(device, memory=device, timing=_QUICK).serve(Played(file.read_bytes()))


def _talk(open_link: Callable[[], Any]) -> None:
    board = RemoteBoard(open_link, Timeouts(), attempts=1)
    for desc in board.info().networks[:2]:
        for per_layer in (False, True):
            board.run(
                Request(
                    desc.name, None, per_layer, CounterOption.EPOCH_LEN | CounterOption.NPU_CACHE
                )
            )
    board.close()


class _Recorder(ClientEnd):
    """Keeps what the board sends after each write, in hex: one row a write."""

    rows: list[str]

    def read(self, n: int, timeout_s: float) -> bytes:
        data = super().read(n, timeout_s)
        self.rows[-1] += data.hex()
        return data

    def write(self, data: bytes) -> None:
        self.rows.append("")
        super().write(data)


def _boards(_: Path) -> list[bytes]:
    """A whole conversation of our client with a virtual board."""
    device = pump.FakeDevice(
        pump.network("tiny", (3,)), pump.network("pair", (2, 5), "int16", inputs=2, nodes=3)
    )
    line = pump.Pump(pump.virtual_board(device, memory=True))
    rows = [""]

    def opened() -> _Recorder:
        line.open()
        link = _Recorder(line)
        link.rows = rows
        return link

    _talk(opened)
    line.hang_up()
    return [json.dumps(rows).encode()]


def _odd_answers(data: bytes, rng: Random) -> bytes:
    """Answers lost, doubled, swapped or damaged."""
    rows = json.loads(data)
    at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
    edit = rng.randrange(6)
    if edit == 0 and len(rows) > 1:
        del rows[at]
    elif edit == 1:
        rows.insert(other, rows[at])
    elif edit == 2:
        rows[at], rows[other] = rows[other], rows[at]
    else:
        rows[at] = rng.choice(WIRE)(bytes.fromhex(rows[at]), rng).hex()
    return json.dumps(rows).encode()


class _Playback:
    """A board's answers as a link; time passes only where a client waits in vain."""

    name = "playback"
    hint = ""

    def __init__(self, rows: list[str]) -> None:
        self._rows = [bytes.fromhex(row) for row in rows]
        self._waiting, self._clock = b"", 0.0

    def now(self) -> float:
        return self._clock

    def read(self, n: int, timeout_s: float) -> bytes:
        piece, self._waiting = self._waiting[:n], self._waiting[n:]
        self._clock += 1e-6 if piece else max(timeout_s, 1e-6)
        return piece

    def write(self, data: bytes) -> None:
        self._clock += 1e-6
        self._waiting += self._rows.pop(0) if self._rows else b""

    def deliver(self, packets: object, ask: bytes, timeout_s: float) -> int:
        return 0

    def flush(self) -> None:
        self._waiting = b""

    def close(self) -> None: ...


def hear_a_board(folder: Path, file: Path) -> None:
    """A client that hears these answers; it may only say that the board is at fault."""
    try:
        rows = [str(row) for row in json.loads(file.read_bytes())][1:]
        link = _Playback(rows)
    except (ValueError, TypeError):
        return  # a smaller case may not be answers any more
    _talk(lambda: link)


def read_a_sweep(folder: Path, file: Path) -> None:
    """The runs that a sweep file asks for, without doing them."""
    from npuscope.advice.sweep.runs import expand
    from npuscope.advice.sweep.spec import read_spec

    expand(read_spec(file))


def plan_an_application(folder: Path, file: Path) -> None:
    """The demands of an application, without looking for their places."""
    from npuscope.application.request import read_application

    application = read_application(file)
    assert application.modes and application.steps


def read_a_linker_file(folder: Path, file: Path) -> None:
    from npuscope.application.linker import read_linker_file

    layout = read_linker_file(file)
    for region in layout.regions:
        layout.used_bytes(region)


def check_an_application(folder: Path, file: Path) -> None:
    """A folder whose source is damaged."""
    from npuscope.application.check.c_source import arrays, bodies, compiled, plain
    from npuscope.application.check.cache_rules import cache_findings

    text, macros = plain(file.read_text(encoding="utf-8", errors="replace")), {"USE_DISPLAY": "1"}
    body = compiled(text, macros)
    list(cache_findings("", list(bodies(body, "a")), list(arrays(body, "a", macros))))


def _applications(side: Path) -> list[bytes]:
    from application.networks_here import EXAMPLE

    return [EXAMPLE.read_bytes()]


def _linker_files(side: Path) -> list[bytes]:
    from application.test_linker import MAP, SCRIPT

    return [SCRIPT.encode(), MAP.encode()]


def _sources(side: Path) -> list[bytes]:
    from application.app_folder import MAIN

    return [MAIN.encode()]


SWEEPS = (
    'models = ["*.tflite", { path = "conv.tflite", shapes = { x = [1, 8, 8, 3] } }]\n'
    'machines = ["stm32n6"]\ngenerations = ["2.2", "4.0"]\nepoch_controller = [true, false]\n'
    'optimization = [0, 3]\ninput_data_type = "int8"\noutput_data_type = ["int8", "float32"]\n'
    'findings = true\n[[pools]]\nname = "default"\n[[pools]]\n'
    "set = { pools.hyperRAM.size_kib = 0 }\n[[clocks]]\nmcu_mhz = 600\nnpu_mhz = 800.5\n"
    '[[sets]]\nname = "small cache"\nset = { cache.size_bytes = 65536 }\n',
    'models = ["conv.tflite"]\n[[clocks]]\nnpu_mhz = 500\n[[clocks]]\nnpu_mhz = 600\n',
)


def _stores(side: Path) -> list[bytes]:
    rows = [
        sweeps.row("a"),
        sweeps.row("b", "b.tflite", total_ms=3.5, generation="2.2", clocks="slow", set="x=1"),
        sweeps.failed("c"),
        sweeps.row("d", pools="internal", notes=["one", "two"]),
    ]
    lines = (json.dumps(row, separators=(",", ":")) for row in rows)
    return ["".join(f"{line}\n" for line in lines).encode()]


def _small_net() -> Net:
    """Hardware and software epochs, few of them: the build's files stay short."""
    net = Net((1, 6, 6, 3))
    net.conv(4, stride=2)
    net.mean()
    net.dense(3)
    net.softmax()
    return net


def prepare(side: Path) -> None:
    """What commands need beside the file: a model, builds, saved results, programs."""
    for name, net in (("net", _small_net()), ("conv", conv_net())):
        (side / f"{name}.tflite").write_bytes(to_tflite(net))
        (side / f"{name}.onnx").write_bytes(to_onnx(net))
    (side / "application").mkdir()
    for name in ("detector", "tagger"):
        (side / "application" / f"{name}.tflite").write_bytes(to_tflite(conv_net()))
    (side / "dense.tflite").write_bytes(to_tflite(dense_net(outputs=(8, 4))))
    (side / "samples.csv").write_bytes(_tables(side)[0])
    net = side / "net.tflite"
    graph = load_model(net)
    npuscope.compile(graph, side / "build")
    npuscope.compile(graph, side / "plain", epoch_controller=False, generation="2.2")
    if main(f"compile {net} -o {side}/moved --relocatable -q".split()):
        raise RuntimeError("the relocatable build")
    for build in ("build", "plain", "moved"):
        # The same without our own program, so that readers take the vendor's files.
        shutil.copytree(side / build, side / f"{build}_c")
        (side / f"{build}_c" / "program.json").unlink()
        shutil.copytree(side / f"{build}_c", side / f"{build}_info")
        (side / f"{build}_info" / "network.c").unlink()
    _keep_results(side, net)
    machine = side / "machine"
    machine.mkdir()
    shutil.copy(side / "build" / "stm32n6.mpool", machine / "ours.mpool")
    (machine / "ours.mdesc").write_text(json.dumps(MDESC))
    shutil.copytree(machine, side / "art")
    (side / "art" / "neural_art.json").write_text(json.dumps(ART_PROFILES[0]))
    sweep = side / "sweep"
    sweep.mkdir()
    shutil.copy(side / "conv.tflite", sweep / "conv.tflite")
    (side / "network_rel.bin").write_bytes(images.image())
    prepare_manycore(side)


def _keep_results(side: Path, net: Path) -> None:
    results = side / "results"
    results.mkdir()
    for words in (
        f"profile {net} -q --save {results}/profile.json --log {results}/run.log",
        f"profile {net} -q --json {results}/profile_result.json",
        f"estimate {net} -q --json {results}/estimate.json",
        f"estimate {net} -q --json {results}/estimate22.json --generation 2.2",
        f"explain {net} -q --json {results}/explain.json",
        f"fix {net} -q --seeds 1 --json {results}/fix.json",
        f"gate {net} -q --max total_ms=100 --json {results}/gate.json",
        f"compare {net} -q --b generation=2.2 --json {results}/compare.json",
        f"validate {net} -q --json {results}/validate.json",
    ):
        if main(words.split()) not in FINISHED_CODES:
            raise RuntimeError(words)


RESULT_COMMANDS = _commands(
    "compare {file} {side}/results/estimate.json", "compare {side}/net.tflite {file}",
    "gate {file} --max total_ms=1 --max SW=0", "gate {side}/net.tflite --baseline {file} --tol 3%",
    "inspect {file}", "inspect {file} --json", "compare {file} --json",
    "gate {file} --baseline {file} --json",
)  # fmt: skip
PROFILE_COMMANDS = _commands(
    "profile {file}", "profile {file} --full", "profile {file} --json", "inspect {file} --json",
    "profile {file} --csv {out}.csv --trace {out}.pftrace --chrome {out}.json",
    "profile {file} --html {out}.html", "compare {file} {side}/net.tflite",
    "gate {file} --max SW=0",
    "export {file} --model {side}/net.tflite --netron {out}.onnx",
)  # fmt: skip

ROWS: tuple[Target, ...] = (
    Target("tflite", _tflite_models, TFLITE, TFLITE_COMMANDS, "net.tflite"),
    Target("onnx", _onnx_models, ONNX, ONNX_COMMANDS, "net.onnx"),
    Target("network_c", _build_file("build/network.c"), TEXT, (*SOURCE_COMMANDS, *FOLDER_COMMANDS),
           "network.c", "build_c"),
    Target("network_c_plain", _build_file("plain/network.c"), TEXT,
           (*SOURCE_COMMANDS, *FOLDER_COMMANDS), "network.c", "plain_c"),
    Target("network_c_moved", _build_file("moved/network.c"), TEXT, PACKAGE_COMMANDS,
           "network.c", "moved_c"),
    Target("ecblobs_h", _build_file("build/network_ecblobs.h"), TEXT,
           (*_commands("disasm {file}", "disasm {file} --json", "inspect {file}"),
            *FOLDER_COMMANDS), "network_ecblobs.h", "build_c"),
    Target("c_info", lambda side: [*_as_json(*C_INFOS)(side),
                                   *_build_file("build/c_info.json", "plain/c_info.json")(side)],
           JSON, SOURCE_COMMANDS, "c_info.json"),
    Target("network_csv",
           lambda side: [CSV.encode(), *_build_file("build/network.csv")(side)], TEXT,
           _commands("inspect {file}", "inspect {file} --json", "inspect {dir}", "estimate {dir}"),
           "network.csv", "build_info"),
    Target("runtime_source",
           _texts("/**\n * @file    ll_aton_lib.c\n */\n#define LL_ATON_VERSION_NAME \"1.1\"\n"),
           TEXT, _commands("inspect {file}", "inspect {file} --json", "estimate {file}"),
           "runtime.c"),
    Target("quant_json", _as_json(QUANT_JSON), JSON,
           _commands("inspect {file}", "inspect {file} --json", "inspect {dir}", "estimate {dir}",
                     "explain {dir}", "estimate {dir}/c_info.json"),
           "net_Q.json", "build_info"),
    Target("generate_report", lambda side: [
        *_texts(report_texts.OLD_REPORT, report_texts.CONSOLE + report_texts.NEW_REPORT)(side),
        *_build_file("build/network_generate_report.txt")(side)], TEXT,
           _commands("inspect {file}", "inspect {file} --json", "inspect {dir} --json"),
           "network_generate_report.txt", "build_info"),
    Target("validate_report", _texts(
        report_texts.VALIDATE_REPORT, report_texts.as_ide_log(
            report_texts.OLD_REPORT + report_texts.RESULTS)), TEXT,
           _commands("inspect {file}", "inspect {file} --json", "inspect {dir} --json",
                     "profile --connect log:{file}"), "report.txt", "build_info"),
    Target("profiler_log", _texts(report_texts.PROFILER_LOG), TEXT,
           LOG_COMMANDS, "run.log"),
    Target("counter_log", _build_file("results/run.log"), TEXT, LOG_COMMANDS, "run.log"),
    Target("ec_blob", lambda side: [write_binary(EcBinary((Label(3), Irq(0)))), *_blobs(side)],
           BINARY, _commands("disasm {file}", "disasm {file} --json", "inspect {file}",
                             "inspect {file} --json", "disasm {file} -o {out}.txt"), "blob.bin"),
    Target("ec_asm", lambda side: [COPY.encode(), CONVOLUTION.encode()], TEXT,
           _commands("asm {file} -o {out}.bin", "asm {file} -o {out}.h", "asm {file} -o {out}.h "
                     "--json"), "blob.txt"),
    Target("ec_container", lambda side: [write_binary(binary) for binary in CONTAINERS], BINARY,
           _commands("disasm {file}", "disasm {file} --json", "inspect {file} --json"),
           "blob.bin"),
    Target("ec_container_asm", lambda side: [disassemble(binary).encode() for binary in CONTAINERS],
           TEXT, _commands("asm {file} -o {out}.bin", "asm {file} -o {out}.h"), "blob.txt"),
    Target("mpool", lambda side: [json.dumps(MPOOL).encode(),
                                  *_build_file("build/stm32n6.mpool")(side)], JSON,
           _commands("inspect {file} --json", "estimate {side}/conv.tflite --mpool {file}",
                     "compile {side}/conv.tflite --mpool {file} -o {out}",
                     "explain {side}/conv.tflite --mpool {file}", "inspect {file}"), "a.mpool"),
    Target("mdesc", _as_json(MDESC), JSON,
           _commands("inspect {file} --json", "inspect {file}",
                     "estimate {side}/conv.tflite --art-profile other@{dir}/neural_art.json"),
           "ours.mdesc", "art"),
    Target("art_profile", _as_json(*ART_PROFILES), (*JSON, mutate.tokens),
           _commands("inspect {file} --json", "inspect {file}",
                     "estimate {side}/conv.tflite --art-profile default@{file}",
                     "estimate {side}/conv.tflite --art-profile other@{file}"),
           "neural_art.json", "machine"),
    Target("machine", lambda side: [MACHINE.read_bytes()], TOML,
           _commands("estimate {side}/conv.tflite --machine-file {file}",
                     "explain {side}/net.tflite --machine-file {file}",
                     "compile {side}/conv.tflite --machine-file {file} -o {out}",
                     "profile {side}/net.tflite --machine-file {file} --json",
                     "estimate {side}/build --machine-file {file}",
                     "estimate {side}/conv.tflite --machine-file {file} --sensitivity"),
           "own.toml"),
    Target("sweep_spec", _texts(*SWEEPS), TOML, (Command(call=read_a_sweep),), "sweep.toml",
           "sweep"),
    Target("application", _applications, TOML,
           (Command(call=plan_an_application, weight=30),
            *_commands("plan {file}", "plan {file} --json")), "app.toml", "application"),
    Target("linker_file", _linker_files, TEXT, (Command(call=read_a_linker_file),), "app.ld"),
    Target("application_source", _sources, TEXT, (Command(call=check_an_application),), "main.c"),
    Target("sweep_store", _stores, JSON_LINES,
           _commands("sweep report {file}", "sweep report {file} --html {out}.html",
                     "sweep report {file} --csv {out}.csv", "sweep report {file} --json"),
           "sweep.jsonl"),
    Target("program", _build_file("build/program.json"), JSON,
           (*_commands("inspect {file}", "inspect {file} --json"), *FOLDER_COMMANDS),
           "program.json", "build"),
    Target("profile", _build_file("results/profile.json"), JSON, PROFILE_COMMANDS, "p.json"),
    Target("result", _build_file("results/estimate.json", "results/estimate22.json",
                                 "results/profile_result.json"), JSON, RESULT_COMMANDS, "r.json"),
    Target("other_result", _build_file(*(f"results/{verb}.json" for verb in (
        "gate", "explain", "fix", "compare", "validate"))), JSON, RESULT_COMMANDS, "r.json"),
    Target("npy", _arrays, (*BINARY, *(_npy_header,) * 8),
           _commands("validate {side}/conv.tflite --inputs {file}",
                     "validate {side}/conv.tflite --inputs {file} --input-data-type float32"),
           "x.npy"),
    Target("table", _tables, TEXT, TABLE_COMMANDS, "x.csv"),
    Target("npz", _archives, BINARY, TABLE_COMMANDS, "x.npz"),
    Target("labels", _label_files, TEXT, LABEL_COMMANDS, "labels.csv"),
    Target("picture", _pictures, BINARY, PICTURE_COMMANDS, "x.png"),
    Target("loadable", _images, (*BINARY, *(_under_the_seal,) * 9),
           _commands("inspect {file}", "inspect {file} --json", "inspect {file} -v",
                     "inspect {file} --compare {side}/network_rel.bin",
                     "inspect {file} --firmware-map stm32n6570-dk --json"), "network_rel.bin"),
    Target("firmware_map", lambda side: [FIRMWARE_MAP.read_bytes()], TOML,
           _commands("inspect {side}/network_rel.bin --firmware-map {file}",
                     "inspect {side}/network_rel.bin --firmware-map {file} --json"), "map.toml"),
    Target("raw_image", _build_file("build/octoFlash.raw", "plain/octoFlash.raw"), BINARY,
           _commands("inspect {file}", "inspect {file} --json", "checklist {dir}",
                     "inspect {dir}", "estimate {dir}"),
           "octoFlash.raw", "build_c"),
    Target("folder", _folders, (_odd_folder,), FOLDER_COMMANDS, "network.c", lay=_lay_folder),
    Target("wire_host", _hosts, WIRE, (Command(call=hear_a_host),), "bytes"),
    Target("wire_board", _boards, (_odd_answers,), (Command(call=hear_a_board),), "answers"),
)  # fmt: skip


def _whole(kind: str) -> Callable[[Path], list[bytes]]:
    """A whole file of a kind that `inspect` knows."""
    data = BINARIES[kind] if kind in BINARIES else TEXTS[kind].encode()
    return lambda side: [data]


# Files of build folders: what each is called, for hostile readers of their content.
_OF_BUILDS = {
    "weights_c": "network_atonbuf.xSPI2.c",
    "network_h": "network.h",
    "atonn_options": "atonn_options.ini",
    "cpu_report": "report.txt",
    "report_json": "network_report.json",
    "c_graph": "network_c_graph.json",
    "validation_csv": "network_val_io.csv",
    "blob_trace": "blob_trace.c",
    "ec_listing": "blobs.s",
    "stai_api": "stai_net.c",
    "intel_hex": "network_data.hex",
    "elf": "network.elf",
}
BUILD_FILES = tuple(
    Target(kind, _whole(kind), BINARY if kind in BINARIES else TEXT,
           _commands("inspect {file}", "inspect {file} --json", "inspect {dir}"), name)
    for kind, name in _OF_BUILDS.items()
)  # fmt: skip
TARGETS: dict[str, Target] = {
    target.name: target for target in (*ROWS, *MANYCORE, *ETHOS_U, *BUILD_FILES)
}
