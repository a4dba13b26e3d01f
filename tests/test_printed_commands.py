"""Every command and option that a message names exists: what is printed can be typed."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import npuscope
from edits.moves_case import Lite
from edits.test_slope_instead import lite as leaky
from models_onnx import OnnxWriter
from models_tflite import TfliteWriter
from npuscope.advice.catalogue import catalogue
from npuscope.cli.main import main
from npuscope.families.registry import packaged_families
from npuscope.options.kinds import Option, VendorEffect
from npuscope.rulebook.fix import FixTemplate
from npuscope.verbs.table import records
from quantizing.test_litert import float_net as float_tflite

STEPS = ("next ", "then ")
VERBS = records()
SOURCES = Path(npuscope.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*\w(?![\w-])")
COMMAND = re.compile(r"`npuscope ([a-z]+)([^`]*)`")
# Options of other tools: linkers, protoc, programmers, the vendor's compiler in files it wrote.
FOREIGN = {
    *("--chip", "--binary-format", "--targets", "--format", "--no-wait", "--base-address"),
    *("--gc-sections", "--error-limit", "--emit-relocs", "--descriptor_set_out", "--onnx-input"),
    *("--load-mdesc-file", "--load-cdesc-file", "--load-mpool-file", "--load-mdesc", "--opset"),
    "--model-md5",
    *("--accelerator-config", "--output-dir", "--enable-debug-db", "--config"),
    *("--workspace", "--out-dir-prefix"),
}


def spellings(options: tuple[Option, ...]) -> set[str]:
    own = {spelling for option in options for spelling in option.spellings}
    return own | {f"--no-{s.removeprefix('--')}" for s in own} | {"--help", "--version"}


@cache
def messages() -> tuple[tuple[str, str], ...]:
    return tuple(_messages())


def _messages() -> Iterator[tuple[str, str]]:
    """String constants of the sources that are not docstrings, with their place."""
    for path in sorted(SOURCES.rglob("*.py")):
        if path.parent.name == "options":
            continue  # the table itself
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bodies = (getattr(node, "body", None) for node in ast.walk(tree))
        first = (body[0] for body in bodies if isinstance(body, list) and body)
        docs = {id(node.value) for node in first if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = getattr(node, "value", None)
            if isinstance(node, ast.Constant) and isinstance(text, str) and id(node) not in docs:
                yield f"{path.relative_to(SOURCES)}:{node.lineno}", text


def test_every_option_in_a_message_exists() -> None:
    known = {s for verb in VERBS.values() for s in spellings(verb.options)} | FOREIGN
    known |= {s for family in packaged_families() for s in spellings(family.options)}
    found = [(where, word) for where, text in messages() for word in OPTION.findall(text)]
    assert len(found) > 80
    assert [pair for pair in found if pair[1] not in known] == []


def test_every_command_in_a_message_exists() -> None:
    found = [(where, m) for where, text in messages() for m in COMMAND.finditer(text)]
    assert len(found) > 20
    for where, match in found:
        verb, options = match[1], OPTION.findall(match[2])
        if verb == "help":  # of all verbs, or of the one that follows
            continue
        assert verb in VERBS, where
        assert {*options} <= spellings(VERBS[verb].options), where


def fixes() -> dict[str, FixTemplate]:
    return {f"{fix.id} {fix.title}": fix for rule in catalogue().values() for fix in rule.fixes}


@pytest.mark.parametrize("name", [n for n, f in fixes().items() if f.title.startswith("compile")])
def test_an_option_to_compile_with_is_obeyed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    title = fixes()[name].title.format(generation="4.0").replace("generation 4.0", "--generation")
    options = OPTION.findall(title)
    assert options
    model = tmp_path / "network.tflite"
    model.write_bytes(leaky())
    values = {"--generation": ["open" if "open" in title else "4.0"]}
    words = [word for option in options for word in (option, *values.get(option, []))]
    assert main(["compile", str(model), "-o", str(tmp_path / "out"), *words]) == 0
    refused = {o.long for o in VERBS["compile"].options if o.effect is VendorEffect.REFUSED}
    assert not {*options} & refused
    capsys.readouterr()


def with_softmax() -> bytes:
    net, shape = Lite(), (1, 2000)
    x = net.op("LOGISTIC", [net.input(shape)], shape, 1 / 256, -128)
    return net.finish(net.op("SOFTMAX", [x], shape, 1 / 256, -128, Beta=1.0))


@pytest.mark.parametrize(
    ("data", "options", "wanted"),
    [
        (leaky(), ["--generation", "2.2", "--set", "clocks.npu_mhz=600"], "--generation 2.2"),
        (with_softmax(), [], "--drop-softmax"),
    ],
)
def test_the_next_step_can_be_taken(
    data: bytes,
    options: list[str],
    wanted: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "a folder" / "network.tflite"
    model.parent.mkdir()
    model.write_bytes(data)
    assert main(["explain", str(model), *options]) == 0
    shown = capsys.readouterr().out
    command = next(line for line in shown.splitlines() if line.startswith("next"))
    words = shlex.split(command.removeprefix("next"))
    assert words[:3] == ["npuscope", "fix", str(model)]
    assert wanted in command
    assert main([*words[1:], "-o", str(tmp_path / "fixed.tflite")]) == 0
    assert "applied" in capsys.readouterr().out


def float_onnx(folder: Path) -> Path:
    writer = OnnxWriter()
    x = writer.input("x", (1, 3, 8, 8))
    kernel = writer.constant(np.ones((4, 3, 3, 3), np.float32))
    y = writer.node("Conv", x, kernel, name="conv", output="y")
    path = folder / "net.onnx"
    path.write_bytes(writer.finish({y: None}))
    return path


def dynamic_range(folder: Path) -> Path:
    writer = TfliteWriter()
    x, y = (writer.tensor(name, (1, size), "float32") for name, size in (("x", 8), ("y", 4)))
    weights = writer.constant("w", np.ones((4, 8), np.int8), scale=0.1)
    writer.op("FULLY_CONNECTED", [x, weights], [y])
    path = folder / "net.tflite"
    path.write_bytes(writer.finish([x], [y]))
    return path


def int8(folder: Path) -> Path:
    path = folder / "net.tflite"
    path.write_bytes(leaky())
    return path


def build_folder(folder: Path) -> Path:
    assert main(["compile", str(int8(folder)), "-o", str(folder / "build")]) == 0
    return folder / "build"


@pytest.mark.parametrize(
    ("kind", "options", "wanted"),
    [
        (float_onnx, ["--as-int8"], "npuscope quantize"),
        (float_tflite, ["--as-int8"], "quantize"),
        (dynamic_range, ["--as-int8"], ""),
        (int8, [], "npuscope fix"),
        (int8, ["--as-int8"], "npuscope fix"),
        (build_folder, [], ""),
        (int8, ["--machine", "cloudai100"], ""),
    ],
)
def test_the_next_step_works_for_this_very_input(
    kind: Callable[[Path], Path],
    options: list[str],
    wanted: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Float files are quantized first; what no verb can change has no next step."""
    model = kind(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["explain", str(model), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [line.partition(" ")[2].strip() for line in lines if line.startswith(STEPS)]
    assert bool(commands) is bool(wanted)
    assert all(wanted in command for command in commands)
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "npuscope" or command == "pip install 'npuscope[quantize]'"
        if words[1] == "quantize":
            pytest.importorskip("onnxruntime")
        if words[0] == "npuscope" and len(commands) == 1:  # else something is to be installed
            assert main(words[1:]) == 0
