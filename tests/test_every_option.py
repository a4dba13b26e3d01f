"""Every option of every verb, on a machine of every family, changes the result, or is refused, or
`option_cells` says why it means nothing there. The cells come from the verbs' records, so a new
option is among them; without a value to try it fails. A refusal counts where the same call without
the option is fine, and names the option; a reason that is not true any more fails too."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import re
import secrets
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import md5
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import Struct

import machine.test_art_profile as art
import machine.test_mdesc as mdesc
from ethos_u.networks import Convolution, vela_file
from ethos_u.streams import U55_128
from many_core.test_tokens import TWO_LAYERS, decoder
from models import Net, mobilenet_like, save, to_onnx, to_tflite
from models_onnx import OnnxWriter
from npuscope.advice.sweep import drive, one_run
from npuscope.boards.emulated.board import LinkBridge
from npuscope.boards.listeners import TcpListener
from npuscope.cli.main import main
from npuscope.families.ethos_u import build as ethos_build
from npuscope.live.server import LiveServer
from npuscope.machine.load import packaged
from npuscope.options.kinds import Option, Verb
from npuscope.profiling.model import profile_to_json
from npuscope.verbs import assistant_server
from npuscope.verbs.families import with_families
from npuscope.verbs.table import records
from option_cells import CALLS, IRRELEVANT, LONG, MACHINES, NEEDS, NETS, UNSUPPORTED, Try, tries
from texts.networks import NETWORKS

_FINE = (0, 1)  # 1: a condition that the user gave is not met
_REFUSED = (2, 3, 4)
_BUG = 70
_ANSWER = "answer.json"
SMALL = "dense.tflite"  # for verbs that try much
FOREIGN = "foreign.json"
BUILD = "far/away/build"  # its model is not beside it


# Ports, and seconds that something took.
_OF_THE_MOMENT = re.compile(rb"127\.0\.0\.1:\d+|in \d+\.\d+ s\b")


class Outcome(Struct, frozen=True):
    code: int
    text: str
    files: dict[str, bytes]


class Bench:
    """A folder with all that the calls name; what a call writes is looked at and removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = {name: (folder / name).read_bytes() for name in (FOREIGN, "bad.jsonl")}
        self._bases: dict[str, Outcome] = {}
        self.given = set(self._files())
        self.places = {os.path.relpath(place, folder) for place, _, _ in os.walk(folder)}

    def _files(self) -> Iterator[str]:
        for place, _, files in os.walk(self.folder):
            for name in files:
                yield os.path.relpath(os.path.join(place, name), self.folder)

    def run(self, words: str) -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(words))
        assert code != _BUG, f"{words}: {out.getvalue()}{err.getvalue()}"
        files = {}
        for name in set(self._files()) - self.given:
            path = self.folder / name
            files[name] = _OF_THE_MOMENT.sub(b"", path.read_bytes())
            path.unlink()
        for place, _, _ in os.walk(self.folder, topdown=False):
            if os.path.relpath(place, self.folder) not in self.places:
                os.rmdir(place)
        for name, before in self.kept.items():
            path = self.folder / name
            files[name] = path.read_bytes()
            path.write_bytes(before)
        told = _OF_THE_MOMENT.sub(b"", (out.getvalue() + err.getvalue()).encode())
        return Outcome(code, told.decode(), files)

    def base(self, words: str) -> Outcome:
        if words not in self._bases:
            self._bases[words] = self.run(words)
        return self._bases[words]

    def honours(self, verb: str, family: str, option: Option, one: Try) -> str:
        """How the option was treated; empty where it was ignored."""
        call = f"{_call(verb, family, one)} {one.beside}".strip()
        words = one.words.replace("NET", one.net or NETS[family])
        own, before = self.run(f"{call} {words}"), self.base(call)
        if own.code in _FINE:
            return "changed" if _without(own, words) != _without(before, words) else ""
        names = [*option.spellings]
        # A file or a name at fault may be named itself.
        names += [part for part in re.split("[ =@]", words)[1:] if len(part) > 4]
        named = any(name in own.text for name in names)
        refused = own.code in _REFUSED and before.code in _FINE and named
        return "refused" if refused else ""


def _call(verb: str, family: str, one: Try) -> str:
    words = one.base.replace("{verb}", verb) or CALLS[verb]
    machine = MACHINES[family] if "machine" in _names(verb) and verb not in CORE_VERBS else ""
    if verb not in CORE_VERBS and any(o.name == "json" for o in records()[verb].options):
        words += f" --json {_ANSWER}"
    if machine:
        words += f" --machine {machine}"
    net = one.net or (SMALL if "SMALL" in words else NETS[family])
    words = words.replace("SMALL", net)
    return words.replace("NET", net).replace("OUT", f"fixed{Path(net).suffix}")


CORE_VERBS = tuple(verb for verb in CALLS if verb.startswith(("manycore", "opstats")))


def _names(verb: str) -> set[str]:
    return {option.name for option in records()[verb].options}


def _without(outcome: Outcome, words: str) -> Outcome:
    """Commands that are quoted name their options; that alone is no effect."""
    text = outcome.text.replace(f" {words}", "")
    told = f" {words}".encode()
    return Outcome(
        outcome.code, text, {n: data.replace(told, b"") for n, data in outcome.files.items()}
    )


def families_of(verb: str, row: Verb) -> tuple[str, ...]:
    """Verbs without a machine have one column: that of the files that they are called with."""
    if verb in CORE_VERBS:
        return ("cloudai100",)
    return tuple(MACHINES) if "machine" in {o.name for o in row.options} else ("stm32n6",)


COLUMNS = [
    (verb, family)
    for verb, row in records().items()
    if row.groups
    for family in families_of(verb, row)
]


def cells(verb: str, family: str) -> list[Option]:
    """An option that only says the machine is part of the other families' calls."""
    options = with_families(records()[verb]).options
    return [o for o in options if o.shell and tries(verb, o, family) != ()]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("cells")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.setenv("SOURCE_DATE_EPOCH", "0")
    patch_slow(patch)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        write_files(folder)
    yield Bench(folder)
    patch.undo()


def patch_slow(patch: pytest.MonkeyPatch) -> None:
    """Vela runs once for equal calls, sweeps run in this process, and what serves others says what
    it would serve, and ends."""
    patch.setattr(ethos_build, "run_vela", lru_cache(maxsize=None)(ethos_build.run_vela))
    patch.setattr(drive, "run_here", _swept_here)
    patch.setattr(TcpListener, "serve", _told_board)
    patch.setattr(LiveServer, "serve_forever", _told_page)
    patch.setattr(secrets, "token_urlsafe", lambda _: "token")
    patch.setattr(assistant_server, "serve_tools", _told_tools)


def _swept_here(runs: Any, jobs: int, timeout_s: float | None, keep: Any) -> None:
    for run in runs:
        keep({**one_run._row(json.loads(run.task(with_path=True)), None), "seconds": 0.0})


def _told_board(self: Any, served: Any) -> None:
    if isinstance(served, LinkBridge):
        print("an emulated board")
        return
    board = served._device
    parts = [loaded.program for loaded in board._loaded.values()], board.machine
    print(md5(pickle.dumps(parts)).hexdigest())


def _told_page(self: Any, *rest: Any) -> None:
    states = getattr(self.library, "states", None)
    if states is None:
        print(profile_to_json(self.library.timed(self.first).profile))
    else:
        print(states(self.first)[-1].look.profile.total_ms)
    print(self.answers.first_page(self.library, self.first))


async def _told_tools(tools: Any) -> None:
    print(sorted(tools.names))


def branches() -> Net:
    """Level, scheduler and units in series change its time."""
    net = Net((1, 12, 12, 3))
    first = net.conv(16)
    second = net.conv(16, depthwise=True)
    third = net.conv(16)
    both = net.add(first, second)
    fourth = net.conv(16, kernel=1)
    last = net.add(second, first)
    for other in (second, third, both, fourth):
        last = net.add(last, other)
    return net


def plain(*, classes: bool = True) -> bytes:
    """Layers that compute on floats, with classes or a map at the end."""
    writer, values = OnnxWriter(), np.random.default_rng(0)
    last = writer.input("x", (1, 3, 16, 16))
    for inner, outer in ((3, 16), (16, 16), (16, 4)):
        weights = values.normal(0, 0.1, (outer, inner, 3, 3)).astype(np.float32)
        last = writer.node("Conv", last, writer.constant(weights), pads=[1, 1, 1, 1])
    if not classes:
        writer.node("Relu", last, output="y")
        return writer.finish({"y": (1, 4, 16, 16)})
    last = writer.node("GlobalAveragePool", writer.node("Relu", last))
    writer.node("Flatten", last, output="y")
    return writer.finish({"y": (1, 4)})


def open_sizes() -> bytes:
    """The file leaves rows and columns open."""
    writer = OnnxWriter()
    image = writer.qdq(writer.input("x", (1, 3, "rows", "columns")), 0.02)
    weights = writer.dequantized_constant(np.ones((4, 3, 3, 3), np.int8), 0.01)
    result = writer.node("Conv", image, weights, pads=[1, 1, 1, 1])
    writer.qdq(result, 0.05)
    writer.dequantize(writer.quantize(result, 0.05), 0.05, output="y")
    return writer.finish({"y": (1, 4, "rows", "columns")})


def write_files(folder: Path) -> None:
    for name in (
        *("mobilenet.tflite", "conv.tflite", "large_image.tflite", "float.onnx", "dense.tflite"),
    ):
        save(folder, name, NETWORKS[name]())
    save(folder, "wide.tflite", to_tflite(mobilenet_like(size=48, width=24)))
    save(folder, "branch.onnx", to_onnx(branches()))
    save(folder, "open.onnx", open_sizes())
    save(folder, "plain.onnx", plain())
    save(folder, "map.onnx", plain(classes=False))
    (folder / "zeros.raw").write_bytes(bytes(1 << 16))
    (folder / FOREIGN).write_text("not ours")
    vela_file(Convolution(U55_128), folder).rename(folder / "net_vela.tflite")
    for name in ("pictures", "many", "stats"):
        (folder / name).mkdir()
    for number in range(12):
        pixels = np.random.default_rng(number).integers(0, 256, 20 * 16 * 3, dtype=np.uint8)
        picture = b"P6 20 16 255\n" + pixels.tobytes()
        for name in ("pictures", "many") if number < 3 else ("many",):
            (folder / name / f"{number}.ppm").write_bytes(picture)
    np.save(folder / "ones.npy", np.ones((1, 16, 16, 3), np.float32))
    (folder / "labels.csv").write_text(
        "".join(f"{n}.ppm,{(1, 2, 1, 0)[n % 4]}\n" for n in range(12))
    )
    for name in ("boot.hex", "app.hex"):
        (folder / name).write_text(":00000001FF\n")
    network = '[[networks]]\nname = "first"\nmodel = "conv.tflite"\n'
    (folder / "app.toml").write_text(f'name = "one"\n{network}')
    (folder / "sweep.toml").write_text('models = ["conv.tflite"]\ngenerations = ["2.2", "4.0"]\n')
    slow = packaged("stm32n6").read_text(encoding="utf-8").replace("mcu_mhz = 800", "mcu_mhz = 700")
    (folder / "mine.toml").write_text(slow, encoding="utf-8")
    save(folder, "decoder.onnx", decoder(TWO_LAYERS))
    (folder / "bad.toml").write_text(f'models = ["{FOREIGN}"]\n')
    assert main(["sweep", "bad.toml", "--jobs", "1"]) == 1
    lines = [
        "profile branch.onnx --save saved.json --log run.log",
        "sweep sweep.toml --jobs 1 -o swept.jsonl",
        "manycore compile -model=conv.tflite -aic-binary-dir=qpc -stats-level=70 -aic-num-cores=2",
        "manycore run --test-data=qpc --num-iter=3 --aic-profiling-type=raw_device_stats "
        "--aic-profiling-out-dir=stats",
        "disasm net_vela.tflite -o blob.txt",
        "plan app.toml -o planned",
        "compile conv.tflite --relocatable -o relative",
    ]
    if find_spec("ziglang"):
        lines.append("package relative -o image -n network")
    for line in lines:
        assert main(shlex.split(line)) == 0, line
    assert main(["compile", str(folder / "branch.onnx"), "-o", str(folder / BUILD), "-q"]) == 0
    art.pool_file(folder / "small.mpool")
    art.write(folder / "art.json", small={"memory_pool": "./small.mpool", "options": "-O1"})
    conv = {**mdesc.CONV, "num": 1}
    units = [mdesc.engines(0, 3, 0), mdesc.engines(3, 3, 1), conv]
    others = ({**mdesc.CONV, "type": kind} for kind in ("ARITH", "ACTIV", "POOL"))
    mdesc.write(folder / "small.mdesc", [*units, *others])


def irrelevant(verb: str, option: Option, family: str) -> str:
    """The reason, where one is written for the cell."""
    cell = (verb, option.name, family)
    found = (why for key, why in IRRELEVANT.items() if all(map(fnmatchcase, cell, key)))
    return next(found, "")


def require(verb: str, family: str) -> None:
    for package in (NEEDS.get(verb, ""), "ethosu.vela" if family == "ethos-u" else ""):
        if package:
            pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.mark.parametrize(("verb", "family"), COLUMNS)
def test_every_option_is_honoured_or_refused(bench: Bench, verb: str, family: str) -> None:
    require(verb, family)
    call = bench.base(_call(verb, family, Try("")))
    refused = call.code == 2
    assert refused == ((verb, family) in UNSUPPORTED), call.text
    if refused:  # with every option
        return
    wrong = []
    for option in cells(verb, family):
        values = tries(verb, option, family)
        assert values is not None, f"{option.long}: no value to try in option_cells"
        reason = irrelevant(verb, option, family)
        if reason and verb in LONG:
            continue
        treated = any(bench.honours(verb, family, option, one) for one in values)
        if treated == bool(reason):
            wrong.append(f"{option.long}: {'not true: ' + reason if reason else 'ignored'}")
    assert not wrong, "\n".join(wrong)


def test_reasons_are_few_and_each_is_needed() -> None:
    every = [
        (verb, option, family)
        for verb, family in COLUMNS
        if (verb, family) not in UNSUPPORTED
        for option in cells(verb, family)
    ]
    assert sum(bool(irrelevant(*cell)) for cell in every) <= len(every) / 10
    names = [(verb, option.name, family) for verb, option, family in every]
    unused = [key for key in IRRELEVANT if not any(all(map(fnmatchcase, n, key)) for n in names)]
    assert unused == []


def test_calls_are_those_of_the_records() -> None:
    assert set(CALLS) == {verb for verb, row in records().items() if row.groups}


@pytest.mark.parametrize("verb", [verb for verb in CALLS if verb != "doctor"])
def test_a_call_answers_alike_twice(bench: Bench, verb: str) -> None:
    """What differs without an option proves nothing about it; `doctor` tells how long it took."""
    family = families_of(verb, records()[verb])[0]
    require(verb, family)
    call = _call(verb, family, Try(""))
    before = bench.base(call)
    assert before.code in _FINE, before.text
    assert before == bench.run(call)
