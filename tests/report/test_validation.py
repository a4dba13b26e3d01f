"""What a validation prints: the verdict, the rule behind it, and the layers that break it."""

from __future__ import annotations

from npuscope.profiling.agreement import Agreement, LayerAgreement
from npuscope.profiling.validate import Reference, Validation
from npuscope.profiling.verdict import RULE, Verdict
from npuscope.report.validation import validation_text

OUTPUT = Agreement("scores", 1.0, 1.0, 0, 0.0, 1.0, 0.0, 0.0)
GOOD = LayerAgreement("epoch 1", ("Conv2D",), ("Conv:one",), 0.9, 1.0, 1)
BAD = LayerAgreement("epoch 2", ("Conv2D",), ("Conv:two",), 0.2, 0.5, 9, 0.6, 0.1)


def shown(*layers: LayerAgreement, total: int = 0, output: Agreement = OUTPUT) -> list[str]:
    verdict = Verdict.WRONG if BAD in layers else Verdict.PASSED
    found = Validation(
        (output,),
        layers,
        0.5,
        "Conv:two",
        0.0,
        Reference(None),
        1,
        verdict.holds,
        (),
        verdict,
        len(layers),
        total or len(layers),
        tuple(f"epoch {number}" for number in range(len(layers), total)),
    )
    return validation_text(found).splitlines()


def test_what_passes_says_what_it_stands_on_and_the_rule() -> None:
    assert shown(GOOD)[:2] == [
        "passed: outputs within 0 LSB; 1 of 1 layer compared, 1 agree",
        f"rule: {RULE}",
    ]


def test_what_was_not_compared_is_listed() -> None:
    lines = shown(GOOD, total=6)
    assert "1 of 6 layers compared, 1 agree" in lines[0]
    assert "not compared: epoch 1, epoch 2, epoch 3 and 2 more" in lines


def test_equal_outputs_are_not_given_as_the_reason_of_a_failure() -> None:
    lines = shown(GOOD, BAD)
    assert lines[0].startswith("wrong: outputs within 0 LSB, ")
    assert lines[0].endswith("; 2 of 2 layers compared, 1 agree")
    near = "60.0% within 3 LSB, 10.0% of its worst channel"
    assert f"disagrees: epoch 2 (Conv:two), {near}" in lines


def test_the_op_that_is_furthest_off_is_no_fault_where_the_rule_holds() -> None:
    assert "furthest off: Conv:two, 90.00% exact, at most 1 LSB" in shown(GOOD)
    assert "first op to look at: Conv:two" in shown(GOOD, BAD)


def test_what_the_compiler_changed_is_told() -> None:
    found = Validation((OUTPUT,), (BAD,), 0.5, None, 0.0, Reference(None), 1, False, ("rounded",))
    assert validation_text(found).splitlines()[1] == "note: rounded"
