"""Epochs off the NPU become findings: the reason, its evidence, and what a fix would save."""

from __future__ import annotations

import numpy as np
import pytest

from advice.runs import LATEST, run
from compiler.nets import MACHINES, Net, padded_channels, per_tensor
from npuscope.advice.changes import changes_of
from npuscope.advice.refused import deciding, is_fitting, refused_findings
from npuscope.advice.subject import Subject
from npuscope.graph.model import Attrs, DType, Graph
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.images import ResizeAttrs, ResizeMode
from npuscope.program.model import Epoch, EpochKind, Refused, evidence
from npuscope.report.findings import finding_lines
from npuscope.rulebook.finding import Finding
from npuscope.rulebook.fix import GainBasis
from npuscope.structs import replace


def prime(kind: str) -> Graph:
    """The layers of the published question: 257 input channels at one position."""
    net = Net()
    if kind == "Conv2D":
        net.conv(net.input((1, 1, 1, 257), (0.0245, 2)), 257, (1, 1))
    else:
        net.dense(net.input((1, 257), (0.0239, 5)), 1024)
    return net.graph()


def network(tail: str) -> Graph:
    """A convolution and something behind it that the NPU does not do."""
    net = Net()
    x = net.conv(net.input((1, 8, 8, 4)), 8)
    if tail == "mean":
        net.mean(x, axes=(1,))
    elif tail == "concat":
        net.concat((x, x), axis=1)
    elif tail == "transpose":
        net.sigmoid(net.transpose(x, (0, 2, 1, 3)))
    elif tail == "resize":
        attrs = ResizeAttrs((16, 16), (2.0, 2.0), ResizeMode.LINEAR)
        net.op("Resize", (x,), attrs, (1, 16, 16, 8), net.quant(x))
    elif tail == "broadcast":
        y = net.constant(np.ones((1, 8, 1, 1), np.int8), per_tensor(0.1, 0))
        net.op("Mul", (x, y), BinaryAttrs(), (1, 8, 8, 8), per_tensor(0.1, 0))
    elif tail == "softmax":
        net.softmax(net.dense(net.reshape(x, (1, 512)), 10))
    elif tail == "dequantize":
        net.dequantize(x)
    elif tail == "inner softmax":
        net.sigmoid(net.softmax(net.reshape(x, (64, 8))))
    return net.graph()


def cast_input() -> Graph:
    """Integers that the network itself makes float, and a mean that it casts in its middle."""
    net = Net()
    x = net.input((1, 8, 8, 4))
    real = net.op("Cast", (x,), Attrs(), (1, 8, 8, 4), None, DType.FLOAT32)
    y = net.conv(net.quantize(real, (0.05, 0)), 8)
    whole = net.op("Cast", (y,), Attrs(), (1, 8, 8, 8), None, DType.INT32)
    net.op("Cast", (whole,), Attrs(), (1, 8, 8, 8), None, DType.FLOAT32)
    return net.graph()


def test_a_cast_of_the_input_belongs_into_the_application() -> None:
    first, *others = findings(run(cast_input(), LATEST))
    assert first.evidence["op"] == "Cast"
    assert [fix.id for fix in first.fixes] == ["cast-outside"]
    assert others and all("cast-outside" not in {fix.id for fix in f.fixes} for f in others)
    # No layer stands in for a change of type.
    assert all("replace-block" not in {fix.id for fix in f.fixes} for f in (first, *others))


def float_island() -> Graph:
    """int8 -> float PReLU between two conversions -> int8 -> float result."""
    net = Net()
    x = net.conv(net.input((1, 8, 8, 4)), 8)
    slopes = net.constant(np.full((8,), 0.1, np.float32))
    real = net.op("PRelu", (net.dequantize(x), slopes), Attrs(), (1, 8, 8, 8), None, DType.FLOAT32)
    net.dequantize(net.conv(net.quantize(real, (0.05, 0)), 8))
    return net.graph()


def test_conversions_count_with_the_float_op_that_needs_them() -> None:
    island, result = findings(run(float_island(), LATEST))
    assert (island.rule, len(island.evidence["epochs"])) == ("NA-PRELU-SLOPE", 3)  # type: ignore[arg-type]
    assert (result.rule, len(result.evidence["epochs"])) == ("NA-DEQUANTIZE-FLOAT", 1)  # type: ignore[arg-type]
    lines = finding_lines([island, island, result])
    assert any(line.startswith("    cost  3 of the 4 epochs off the NPU, ") for line in lines)


def test_a_bound_counts_what_the_npu_copies_for_the_op() -> None:
    subject = run(padded_channels(), MACHINES["2.2"])
    (found,) = [finding for finding in findings(subject) if finding.rule == "NA-PAD-CHANNEL"]
    epochs = [e for e in subject.profile.epochs if set(found.ops) & set(e.origin)]
    gains = {fix.id: fix.gain_ms for fix in found.fixes}
    assert gains["pad-conv"] == pytest.approx(sum(epoch.ms for epoch in epochs))
    assert sum(epoch.ms for epoch in epochs) > found.cost_ms


def test_a_cut_may_save_all_that_is_off_the_npu_once() -> None:
    """Of two results: the network then ends before the CPU's work of both."""
    net = Net()
    x = net.conv(net.input((1, 8, 8, 4)), 8)
    outputs = [net.sigmoid(net.mean(net.conv(x, 8), axes=(1,))) for _ in range(2)]
    subject = run(net.graph(*outputs))
    layers = [e for e in subject.profile.epochs if any("Conv2D" in name for name in e.origin)]
    change = changes_of(findings(subject))["NA-MEAN-AXES", "", "cut-tail"]
    rest = subject.profile.total_ms - sum(epoch.ms for epoch in layers)
    assert change.count == 2
    assert change.gain_ms == pytest.approx(rest)


TAILS = ("mean", "concat", "transpose", "resize", "broadcast", "softmax", "dequantize")


def findings(subject: Subject) -> list[Finding]:
    return list(refused_findings(subject))


@pytest.mark.parametrize("kind", ["Conv2D", "FullyConnected"])
def test_a_prime_channel_count_is_named_with_its_remedies(kind: str) -> None:
    subject = run(prime(kind), MACHINES["2.2"])
    (found,) = findings(subject)
    assert found.rule == "NA-CONV-PRIME"
    assert found.evidence["value"] == "257 input channels in 257 passes"
    assert found.evidence["limit"] == "255"
    assert found.ops == (f"{kind}:{kind.lower()}",)
    assert {fix.id: dict(fix.parameters) for fix in found.fixes} == {
        "pad-channels": {"channels": 257, "padded": 264, "side": "inputs"},
        "split-inputs": {"parts": "240+17", "halves": "144+113"},
        "change-inputs": {"channels": 256},
    }
    # What a layer costs on the CPU is not known, so neither is the gain.
    assert found.evidence["ms_known"] is False
    assert found.gain_ms is None


@pytest.mark.parametrize("kind", ["Conv2D", "FullyConnected"])
def test_the_open_generation_maps_prime_counts(kind: str) -> None:
    subject = run(prime(kind), MACHINES["open"])
    assert subject.program.count(EpochKind.SW) == 0
    assert findings(subject) == []


@pytest.mark.parametrize("kind", ["Conv2D", "FullyConnected"])
@pytest.mark.parametrize("inputs", [264, 256, 240, 17, 144, 113])
def test_the_remedies_map(kind: str, inputs: int) -> None:
    net = Net()
    if kind == "Conv2D":
        net.conv(net.input((1, 1, 1, inputs), (0.0245, 2)), 257, (1, 1))
    else:
        net.dense(net.input((1, inputs), (0.0239, 5)), 1024)
    assert findings(run(net.graph(), MACHINES["2.2"])) == []


@pytest.mark.parametrize("generation", MACHINES)
@pytest.mark.parametrize("tail", TAILS)
def test_every_epoch_off_the_npu_is_explained(tail: str, generation: str) -> None:
    subject = run(network(tail), MACHINES[generation])
    away = {e.number for e, _ in subject.epochs(EpochKind.SW, EpochKind.HYBRID)}
    found = findings(subject)
    told = {number for f in found for number in f.evidence["epochs"]}  # type: ignore[union-attr]
    assert away and told == away
    assert all(f.fixes and f.ops and f.epoch in away for f in found)
    total = sum(float(f.evidence["ms"]) for f in found)  # type: ignore[arg-type]
    time = subject.profile.time
    assert total == pytest.approx(time.software_ms + time.hybrid_ms, abs=1e-5)


def test_evidence_holds_shapes_and_quantization() -> None:
    (found,) = findings(run(network("concat")))
    tensors = found.evidence["tensors"]
    assert isinstance(tensors, list)
    made = tensors[-1]
    assert isinstance(made, dict)
    assert (made["dtype"], made["per_channel"], made["constant"]) == ("int8", False, False)
    assert made["scale"] is not None
    assert found.evidence["limit"] == "axis 3"


def test_no_fix_saves_more_than_the_op_takes() -> None:
    (found,) = findings(run(network("concat")))
    for fix in found.fixes:
        assert fix.gain.basis is GainBasis.BOUND
        assert fix.gain.ms == pytest.approx(found.evidence["ms"], abs=1e-6)


@pytest.mark.parametrize(
    ("fix", "tail", "kernel", "fits"),
    [
        ("drop-softmax", "softmax", "Softmax", True),
        ("drop-softmax", "inner softmax", "Softmax", False),
        ("integer-output", "dequantize", "Dequantize", True),
        ("quantize-neighbours", "dequantize", "Dequantize", False),
        ("integer-input", "dequantize", "Dequantize", False),
        ("anything", "inner softmax", "Softmax", True),
    ],
)
def test_fixes_fit_their_place(fix: str, tail: str, kernel: str, fits: bool) -> None:
    """Nobody can end the network before a Softmax in its middle."""
    program = run(network(tail)).program
    epoch = next(e for e in program.executed if e.call and e.call.kernel == kernel)
    assert is_fitting(fix, epoch, program) is fits


def test_a_rule_of_another_version_is_told_as_it_is() -> None:
    subject = run(network("softmax"))
    trail = (Refused("NPU", "NA-FUTURE", found=evidence("because of tomorrow")),)
    epochs = tuple(replace(e, trail=trail if e.trail else ()) for e in subject.program.epochs)
    program = replace(subject.program, epochs=epochs)
    found = findings(Subject(program, subject.profile, LATEST, subject.graph))
    assert [(f.rule, f.evidence["value"], f.cause) for f in found] == [
        ("NA-FUTURE", "because of tomorrow", "because of tomorrow")
    ]


def test_the_reason_that_decides() -> None:
    alone, helped = Refused("NPU", "NA-A", "a"), Refused("NPU+CPU", "NA-B", "b")
    software = Epoch(1, 1, EpochKind.SW, trail=(alone, helped))
    assert deciding(software) is helped
    assert deciding(replace(software, kind=EpochKind.HYBRID)) is alone
    assert deciding(replace(software, trail=(alone,))) is alone


def test_an_op_too_steep_for_the_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words are about the table; the op is a value beside them."""
    monkeypatch.setattr("npuscope.compiler.lower.functions.fit_function", lambda outputs: None)
    net = Net()
    net.sigmoid(net.conv(net.input((1, 8, 8, 4)), 8))
    (found,) = findings(run(net.graph()))
    assert (found.rule, found.evidence["op"]) == ("NA-OP-SOFTWARE", "Sigmoid")
    assert str(found.evidence["value"]).startswith("its values change too fast")
