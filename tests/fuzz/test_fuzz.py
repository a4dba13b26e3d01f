"""Some damaged files of every format; `make fuzz` runs thousands."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fuzz import mutate, mutate_models, mutate_numbers
from fuzz.engine import Case, Command, Outcome, Target, Workshop, minimised
from fuzz.own_models import onnx_with_functions
from fuzz.targets import TARGETS, prepare
from models import conv_net, to_onnx, to_tflite
from npuscope.errors import FileError
from npuscope.identify.table import formats

CASES = 10
# Far from the first seeds, which long runs begin with, and from each other.
SEEDS = range(1_000_003, 1_000_003 + 7919 * CASES, 7919)
# Kinds of `inspect` whose row here has another name.
ALSO = {"estimate": "result"}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("fuzz") / "side", prepare)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_read_or_refused(name: str, workshop: Workshop) -> None:
    outcomes = [workshop.run(workshop.case(TARGETS[name], seed)) for seed in SEEDS]
    found = [one for one in outcomes if one.causes]
    assert not found, "\n".join(told(one) for one in found)


def told(outcome: Outcome) -> str:
    command = f"python -m tests.fuzz {outcome.target} --seed {outcome.seed}"
    return f"{', '.join(outcome.causes)}: {command}\n{outcome.details}"


@pytest.mark.parametrize("name", TARGETS)
def test_a_whole_file_is_read_by_some_command(name: str, workshop: Workshop) -> None:
    """A command that refuses every whole file would test nothing but its refusal."""
    target = TARGETS[name]
    whole = workshop.seeds(target)[0]
    codes = (workshop.run(Case(target, 0, whole, command)).code for command in target.commands)
    assert any(code in (0, 1) for code in codes)


def test_every_kind_that_inspect_knows_has_a_row() -> None:
    assert {ALSO.get(row.kind, row.kind) for row in formats()} <= set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_fixes_the_case(name: str, workshop: Workshop) -> None:
    target = TARGETS[name]
    again = Workshop(workshop.side, prepare)
    cases = [workshop.case(target, seed) for seed in range(5)]
    assert [again.case(target, seed) for seed in range(5)] == cases
    assert len({case.data for case in cases}) > 1


@pytest.mark.parametrize(
    ("mutator", "whole"),
    [
        (mutate_models.onnx_fields, to_onnx(conv_net())),
        (mutate_models.onnx_nodes, to_onnx(conv_net())),
        (mutate_numbers.onnx_numbers, to_onnx(conv_net())),
        (mutate_numbers.onnx_functions, onnx_with_functions(nested=True)),
        (mutate_models.tflite_fields, to_tflite(conv_net())),
        (mutate_models.tflite_network, to_tflite(conv_net())),
        (mutate_numbers.tflite_numbers, to_tflite(conv_net())),
        (mutate.json_tree, b'{"a": [1, 2, {"b": "c"}], "d": null}'),
        (mutate.toml_tree, b'a = 1\n[b]\nc = ["x", 2.5]\n'),
        (mutate.protobuf, b"\x08\x01\x12\x04\x08\x02\x10\x03"),
        (mutate.numbers, b"int x[2] = {0x10, 3};"),
        (mutate.word, bytes(range(64))),
    ],
)
def test_mutators_change_most_files(mutator: mutate.Mutator, whole: bytes) -> None:
    changed = [mutator(whole, Random(seed)) != whole for seed in range(40)]
    assert sum(changed) > 25


def test_a_mutator_takes_a_container_that_another_left_without_segments(
    workshop: Workshop,
) -> None:
    assert workshop.case(TARGETS["qpc"], 5375).data


@pytest.mark.parametrize(
    "mutator",
    [mutate_models.tflite_fields, mutate_models.tflite_network, mutate_numbers.tflite_numbers],
)
def test_a_mutator_takes_operators_that_another_left_without_inputs(
    mutator: mutate.Mutator,
) -> None:
    model = mutate_models.decoded_tflite(to_tflite(conv_net()))
    for operator in model.subgraphs[0].operators:
        operator.inputs = operator.builtinOptions = None
    data = mutate_models.packed(model)
    assert all(mutator(data, Random(seed)) for seed in range(40))


# The judge itself


def judged(folder: Path, call: object, data: bytes = b"abc") -> Outcome:
    target = Target("mine", lambda side: [data], mutate.BYTES, (Command(call=call),))  # type: ignore[arg-type]
    shop = Workshop(folder / "side", lambda side: None)
    return shop.run(Case(target, 0, data, target.commands[0]), limit_s=0.2)


class LongWinded(FileError):
    """Errors cut their own sentences; this one stands for text that gets past the cut."""

    def __str__(self) -> str:
        return "x" * 2000


def test_the_judge_names_what_is_wrong(tmp_path: Path) -> None:
    def crash(folder: Path, file: Path) -> None:
        raise KeyError("x")

    def placeless(folder: Path, file: Path) -> None:
        raise FileError("is broken")

    def long_winded(folder: Path, file: Path) -> None:
        raise LongWinded("is broken", where="here")

    def half(folder: Path, file: Path) -> None:
        (folder / "out.tmp").write_text("half")
        raise FileError("is broken", where="here")

    def endless(folder: Path, file: Path) -> None:
        while True:
            pass

    def right(folder: Path, file: Path) -> None:
        raise FileError("is broken", where="here")

    causes = {
        call.__name__: judged(tmp_path, call).causes
        for call in (crash, placeless, long_winded, half, endless, right)
    }
    assert causes == {
        "crash": ("KeyError at outside of npuscope",),
        "placeless": ("a message without a place at outside of npuscope",),
        "long_winded": ("a message of more than 1500 characters at outside of npuscope",),
        "half": ("left behind: out.tmp",),
        "endless": ("Overtime at outside of npuscope",),
        "right": (),
    }


def test_a_case_gets_smaller_and_keeps_its_cause(tmp_path: Path) -> None:
    def crash(folder: Path, file: Path) -> None:
        if b"needle" in file.read_bytes():
            raise KeyError("needle")

    data = b"hay " * 50 + b"needle" + b" hay" * 50
    target = Target("mine", lambda side: [data], mutate.BYTES, (Command(call=crash),))
    shop = Workshop(tmp_path / "side", lambda side: None)
    case = Case(target, 0, data, target.commands[0])
    assert minimised(shop, case, "KeyError at outside of npuscope").data == b"needle"
