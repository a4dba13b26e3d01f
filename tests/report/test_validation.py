"""What a validation prints: the verdict, the rule behind it, and the layers that break it."""

from __future__ import annotations

from npuscope.profiling.agreement import Agreement
from npuscope.profiling.validate import RULE, LayerAgreement, Reference, Validation
from npuscope.report.validation import validation_text

OUTPUT = Agreement("scores", 1.0, 1.0, 0, 0.0, 1.0, 0.0, 0.0)
GOOD = LayerAgreement("epoch 1", ("Conv2D",), ("Conv:one",), 0.9, 1.0, 1)
BAD = LayerAgreement("epoch 2", ("Conv2D",), ("Conv:two",), 0.2, 0.5, 9)


def shown(*layers: LayerAgreement) -> list[str]:
    passed = BAD not in layers
    found = Validation((OUTPUT,), layers, 0.5, "Conv:two", 0.0, Reference(None), 1, passed)
    return validation_text(found).splitlines()


def test_what_passes_says_the_rule() -> None:
    assert shown(GOOD)[:2] == [
        "validation passed: outputs differ by at most 0 LSB",
        f"rule: {RULE}",
    ]


def test_equal_outputs_are_not_given_as_the_reason_of_a_failure() -> None:
    lines = shown(GOOD, BAD)
    assert lines[0].startswith("validation failed: 1 of 2 layers differ by more than rounding;")
    assert "breaks it: epoch 2 (Conv:two), 50.0% within 1 LSB, at most 9" in lines


def test_the_op_that_is_furthest_off_is_no_fault_where_the_rule_holds() -> None:
    assert "furthest off: Conv:two, 90.00% exact, at most 1 LSB" in shown(GOOD)
    assert "first op to look at: Conv:two" in shown(GOOD, BAD)


def test_what_the_compiler_changed_is_told() -> None:
    found = Validation((OUTPUT,), (BAD,), 0.5, None, 0.0, Reference(None), 1, False, ("rounded",))
    assert validation_text(found).splitlines()[-1] == "note: rounded"
