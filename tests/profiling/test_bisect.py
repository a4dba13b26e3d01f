from __future__ import annotations

import json
from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from npuscope.errors import UsageError
from npuscope.profiling.agreement import LayerAgreement
from npuscope.profiling.bisection import bisect
from npuscope.profiling.validate import Reference, Validation
from npuscope.profiling.verdict import agrees
from npuscope.report.validation import bisection_json, bisection_text


def layer(name: str, exact: float, near: float = 1.0, lsb: float = 1.0) -> LayerAgreement:
    place = f"epoch {name}", ("Conv",), (f"Conv2D:{name}",)
    return LayerAgreement(*place, exact, near, lsb, near, near)


def validated(*layers: LayerAgreement) -> Validation:
    passed = all(map(agrees, layers))
    return Validation((), layers, 1.0, None, 0.0, Reference(None), 2, passed)


def test_the_first_layer_that_breaks_the_rule_comes_before_those_that_round() -> None:
    found = bisect(validated(layer("a", 0.9), layer("b", 0.5, 0.6, 7), layer("c", 0.4, 0.5, 9)))
    assert (found.op, found.passed, found.differing, found.layers) == ("Conv2D:b", False, 3, 3)
    assert found.rule == "differs by more than rounding"
    assert bisection_text(found).startswith("first op to differ: Conv2D:b, by up to 7 LSB\n")


def test_without_a_broken_one_the_first_that_rounds_is_told() -> None:
    found = bisect(validated(layer("a", 1.0), layer("b", 0.9), layer("c", 0.5)))
    assert (found.op, found.passed) == ("Conv2D:b", True)
    assert found.rule == "none broken: elements differ only by the NPU's rounding"


def test_where_all_is_exact_nothing_is_named() -> None:
    found = bisect(validated(layer("a", 1.0), layer("b", 1.0)))
    assert found.op is None
    assert (
        bisection_text(found)
        == "no layer differs from the reference\n2 layers compared, 0 differ\n"
    )
    result = bisection_json(found)
    assert [result[key] for key in ("op", "epoch", "origin", "max_lsb", "rule")] == [None] * 5


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


def test_the_verb_and_the_function_agree_with_validate(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bisect", str(model), "--seeds", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["schema"] == "npuscope/bisect/1"
    assert result["seeds"] == 2
    layers = npuscope.validate(model, seeds=2).layers
    assert result["layers"] == len(layers)
    assert result["differing"] == sum(one.exact_share < 1 for one in layers)
    assert result["op"] == npuscope.bisect(model, seeds=2).op


def test_a_wrong_number_of_seeds(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", str(model), "--seeds", "0"]) == 2
    assert "--seeds: expected at least 1 seed, found 0" in capsys.readouterr().err


def test_a_compiled_program_needs_its_model(model: Path, tmp_path: Path) -> None:
    """It is found beside the program, or has to be given."""
    npuscope.compile(model, tmp_path / "net")
    assert npuscope.bisect(tmp_path / "net").layers > 0
    far = tmp_path / "far" / "net"
    npuscope.compile(model, far)
    with pytest.raises(UsageError, match="validated against its model"):
        npuscope.bisect(far)
    assert npuscope.bisect(far, model=model).layers > 0
