"""Advise rules: each with a run that meets it and one that does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from advice.runs import LATEST, clean_network, on_chip, only_pools, run, without_trail
from compiler.nets import MACHINES, Net, per_tensor
from npuscope.advice.catalogue import advices
from npuscope.advice.subject import Subject, convolutions
from npuscope.graph.model import Activation, Graph
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.profiling.model import Fit
from npuscope.program.model import EpochKind
from npuscope.rulebook.finding import Finding
from npuscope.rulebook.fix import at_most
from npuscope.structs import replace


class Case(NamedTuple):
    """`evidence` is a pattern of the first finding's value on `risky`; gains are known or not.

    Times follow the machine's constants, which may be fitted anew: patterns leave them open.
    """

    rule: str
    evidence: str
    risky: Callable[[], Subject]
    clean: Callable[[], Subject]
    known_gains: bool = False


def findings(rule: str, subject: Subject) -> list[Finding]:
    return list(advices()[rule].findings(subject.machine, subject))


def dense(inputs: int, outputs: int, zero: int = 2) -> Graph:
    net = Net()
    net.dense(net.input((1, inputs), (0.01, zero)), outputs)
    return net.graph()


def conv(inputs: int, outputs: int, size: int, window: int = 1, zero: int = 0) -> Graph:
    net = Net()
    net.conv(net.input((1, size, size, inputs), (0.01, zero)), outputs, (window, window))
    return net.graph()


def depthwise(channels: int) -> Graph:
    net = Net()
    net.conv(net.input((1, 8, 8, channels)), 0)
    return net.graph()


def product(*other: int) -> Graph:
    net = Net()
    shape = (1, 32, 32, 600)
    names = net.input(shape), net.input(other or shape)
    net.op("Mul", names, BinaryAttrs(), shape, per_tensor(0.05, 0))
    return net.graph()


def excited() -> Graph:
    """A product with a vector behind a depthwise layer that makes one channel per frame."""
    net = Net()
    x = net.conv(net.input((1, 32, 32, 64)), 0, (5, 5))
    gate = net.sigmoid(net.conv(net.reshape(net.mean(x), (1, 1, 1, 64)), 64, (1, 1)))
    net.op("Mul", (x, gate), BinaryAttrs(), (1, 32, 32, 64), per_tensor(0.05, 0))
    return net.graph()


def concat() -> Graph:
    net = Net()
    net.concat((net.input((1, 32, 32, 16)), net.input((1, 32, 32, 16))))
    return net.graph()


def functions() -> Graph:
    """Functions and a pool, no layer for them to join."""
    net = Net()
    x = net.sigmoid(net.sigmoid(net.input((1, 64, 64, 16))))
    net.max_pool(x)
    return net.graph()


def chain(size: int, layers: int) -> Graph:
    net = Net()
    x = net.input((1, size, size, 8))
    for _ in range(layers):
        x = net.conv(x, 8, activation=Activation.RELU)
    return net.graph()


def float_output(size: int) -> Graph:
    net = Net()
    net.dequantize(net.conv(net.input((1, size, size, 4)), 8))
    return net.graph()


def softmax() -> Graph:
    net = Net()
    net.softmax(net.dense(net.input((1, 16)), 10))
    return net.graph()


def decoded(steps: int, *, layer_behind: bool = False) -> Graph:
    """A layer, and kernels of the CPU behind it."""
    net = Net()
    x = net.conv(net.input((1, 8, 8, 8)), 8)
    for _ in range(steps):
        x = net.softmax(x)
    if layer_behind:
        x = net.conv(x, 8)
    return net.graph()


def by_cpu() -> Subject:
    return run(clean_network(), replace(LATEST, epoch_controller=False))


def two_banks() -> Subject:
    """One tensor is larger than either bank, and no virtual pool joins them."""
    machine = only_pools(LATEST, "npuRAM3", "npuRAM5", "octoFlash", "hyperRAM", size_bytes=65536)
    small = replace(machine, placement=replace(machine.placement, virtual_pool=()))
    hyper = tuple(LATEST.memory(p.name) if p.name == "hyperRAM" else p for p in small.pools)
    return run(conv(4, 20, 64), small.with_pools(hyper))


def clean() -> Subject:
    return run(clean_network())


CASES = [
    Case(
        "ADV-SOFTWARE",
        "Softmax",
        lambda: without_trail(run(softmax())),
        lambda: run(softmax()),
        True,
    ),
    Case(
        "ADV-TAIL",
        "4 CPU ops after the last layer",
        lambda: run(decoded(4)),
        lambda: run(decoded(4, layer_behind=True)),
        True,
    ),
    Case("ADV-TAIL", "5 CPU ops .*", lambda: run(decoded(5)), lambda: run(decoded(3)), True),
    Case("ADV-SW-OUTPUT", "131072", lambda: run(float_output(64)), lambda: run(float_output(8))),
    Case(
        "ADV-WEIGHTS",
        r"1\.[89]\d? ops/cycle",  # 2 as published of 2.2; units are released since 3.0
        lambda: run(dense(1024, 256), on_chip()),
        clean,
        True,
    ),
    Case(
        "ADV-WEIGHTS",
        r"0\.[78]\d? ops/cycle",
        lambda: run(dense(1024, 256)),
        lambda: run(conv(64, 64, 8)),
    ),
    Case(
        "ADV-MODE-16X8",
        "zero point 5",
        lambda: run(conv(64, 64, 32, 3, zero=5)),
        lambda: run(conv(64, 64, 32, 3)),
        True,
    ),
    Case(
        "ADV-CHANNELS",
        "251 -> 251 channels",
        lambda: run(conv(251, 251, 4)),
        lambda: run(conv(256, 256, 4)),
        True,
    ),
    Case(
        "ADV-CHANNELS",
        "64 -> 58 channels",
        lambda: run(conv(64, 58, 28)),
        lambda: run(conv(64, 64, 28)),
        True,
    ),
    Case(
        "ADV-VECTORS", "520", lambda: run(conv(64, 520, 16)), lambda: run(conv(64, 512, 16)), True
    ),
    Case(
        "ADV-ACCUMULATION",
        "16 passes",
        lambda: run(conv(512, 64, 32, 3)),
        lambda: run(conv(32, 64, 32, 3)),
        True,
    ),
    Case("ADV-COPIES", "32768 bytes copied", lambda: run(concat()), clean, True),
    Case(
        "ADV-BROADCAST",
        r"32\.\d cycles per element",
        lambda: run(excited(), MACHINES["3.0"]),
        lambda: run(product()),
        True,
    ),
    Case("ADV-ELEMENTWISE", r"[3-9]\d% of the time", lambda: run(functions()), clean, True),
    Case(
        "ADV-BANK",
        "bank",
        lambda: run(conv(64, 64, 32), only_pools(LATEST, "cpuRAM2", "octoFlash")),
        lambda: run(conv(64, 64, 32)),
    ),
    Case("ADV-FLASH", r"\d+% of the time", lambda: run(dense(1024, 256)), clean, True),
    Case(
        "ADV-FLASH",
        r"\d+% of the time",
        lambda: run(dense(1024, 256)),
        lambda: run(dense(1024, 256), on_chip()),
        True,
    ),
    Case(
        "ADV-EXTERNAL-RAM",
        "4194304 bytes",
        lambda: run(conv(3, 64, 256, 3)),
        lambda: run(conv(3, 64, 64, 3)),
        True,
    ),
    Case("ADV-PLACEMENT", "98304", two_banks, lambda: run(conv(3, 64, 256, 3))),
    Case(
        "ADV-PARTIALS",
        "6422528 bytes",
        lambda: run(conv(3, 64, 112, 7)),
        lambda: run(conv(3, 64, 32, 7)),
    ),
    Case(
        "ADV-INFLATED",
        "32256 bytes more",
        lambda: run(depthwise(512), MACHINES["2.2"]),
        lambda: run(depthwise(512), MACHINES["3.0"]),
    ),
    Case(  # counts that are no multiple of 8 are not stored in groups
        "ADV-INFLATED",
        "32256 bytes more",
        lambda: run(depthwise(512), MACHINES["2.2"]),
        lambda: run(depthwise(500), MACHINES["2.2"]),
    ),
    Case(
        "ADV-LAUNCH",
        r"[4-9]\d% of the time",
        lambda: run(chain(4, 48)),
        lambda: run(chain(64, 48)),
        True,
    ),
    Case(
        "ADV-LAUNCH",
        r"[4-9]\d% of the time",
        lambda: run(chain(4, 48)),
        lambda: run(chain(4, 8)),
        True,
    ),
    Case("ADV-CONTROLLER-OFF", "12 epochs", by_cpu, clean, True),
]


def test_a_layer_may_save_all_of_its_time_where_it_joins_another() -> None:
    """Without the zero point it shares the epoch of what makes its input."""
    subject = run(conv(64, 64, 32, 3, zero=5))
    (found,) = findings("ADV-MODE-16X8", subject)
    assert {round(fix.gain_ms or 0.0, 6) for fix in found.fixes} == {found.evidence["ms"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    found = findings(case.rule, case.risky())
    assert found, "the rule finds nothing in the risky run"
    assert re.fullmatch(case.evidence, str(found[0].evidence["value"]))
    gains = [fix.gain_ms for fix in found[0].fixes]
    assert any(gain is not None and gain > 0 for gain in gains) is case.known_gains
    assert findings(case.rule, case.clean()) == []


def test_every_rule_has_its_runs() -> None:
    assert {case.rule for case in CASES} == set(advices())


def test_a_gemm_is_choked_by_its_weights() -> None:
    """The published case: 1024 x 256 takes 2 operations a cycle, and Deep1x1 is ruled out."""
    (found,) = findings("ADV-WEIGHTS", run(dense(1024, 256), on_chip()))
    wanted = {"bound": "weights", "mode": "16x8", "deep1x1": False, "zero_point": 2}
    assert wanted.items() <= dict(found.evidence).items()
    assert found.fixes[0].id == "zero-point"
    assert found.fixes[0].gain_ms is not None and found.fixes[0].gain_ms > 0.1
    (deep,) = findings("ADV-WEIGHTS", run(dense(1024, 256, zero=0), on_chip()))
    assert deep.evidence["deep1x1"] is True
    assert "zero-point" not in {fix.id for fix in deep.fixes}


def test_gains_come_from_the_layer_compiled_again() -> None:
    (found,) = findings("ADV-CHANNELS", run(conv(64, 58, 28)))
    before = run(conv(64, 58, 28)).profile.total_ms
    after = run(conv(64, 56, 28)).profile.total_ms
    gains = {fix.id: fix.gain_ms for fix in found.fixes}
    assert found.fixes[0].parameters == {"channels": 56}
    assert gains["change-outputs"] == pytest.approx(before - after)


def test_without_the_network_gains_are_bounds() -> None:
    subject = by_cpu()
    alone = Subject(subject.program, subject.profile, subject.machine)
    (found,) = findings("ADV-CONTROLLER-OFF", alone)
    assert found.fixes[0].gain == at_most(subject.profile.time.control_ms)
    assert findings("ADV-CHANNELS", alone) == findings("ADV-INFLATED", alone) == []


def test_the_controller_saves_no_more_than_its_bound() -> None:
    subject = by_cpu()
    (found,) = findings("ADV-CONTROLLER-OFF", subject)
    assert found.gain_ms is not None
    assert 0 < subject.profile.total_ms - clean().profile.total_ms <= found.gain_ms


def test_weights_stay_on_chip_only_where_they_fit() -> None:
    subject = run(dense(1024, 256))
    (found,) = findings("ADV-FLASH", subject)
    assert found.fixes[0].parameters == {
        "settings": "--set pools.octoFlash.size_kib=0 --set pools.hyperRAM.size_kib=0"
    }
    large = replace(subject.profile, fit=Fit(False, True, True, "too large"))
    (found,) = findings("ADV-FLASH", Subject(subject.program, large, subject.machine))
    assert [fix.id for fix in found.fixes] == ["four-bit-weights", "fewer-weights"]


def test_what_weights_of_four_bits_save_is_timed() -> None:
    """All of 1024 x 256 come from flash: half of their way is saved, and nothing else."""
    subject = run(dense(1024, 256))
    (found,) = findings("ADV-FLASH", subject)
    (fix,) = (fix for fix in found.fixes if fix.id == "four-bit-weights")
    way = 1024 * 256 * subject.machine.cycles_per_byte("xspi2")
    saved = way / 2 / subject.machine.clocks.npu_mhz / 1000
    assert fix.gain.ms == pytest.approx(saved, rel=0.01)


def test_a_copy_at_the_border_is_the_applications_layout() -> None:
    net = Net()
    x = net.transpose(net.input((1, 16, 32, 32)), (0, 2, 3, 1))
    net.transpose(net.sigmoid(x), (0, 3, 1, 2))
    found = findings("ADV-COPIES", run(net.graph()))
    fixes = [f.fixes[0] for f in found]
    assert [(fix.id, dict(fix.parameters)) for fix in fixes] == [
        ("channel-last-border", {"side": "input"}),
        ("channel-last-border", {"side": "output"}),
    ]
    joins = findings("ADV-COPIES", run(concat()))
    assert {fix.id for f in joins for fix in f.fixes} == {"avoid-copy"}


def test_a_layer_in_several_epochs_is_told_once() -> None:
    subject = run(conv(3, 64, 32, 7))
    epochs = [e for e, _ in subject.hardware() if "Conv" in e.operators]
    assert len(epochs) > 1
    assert len([*subject.layers(0.0)]) == 1


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0", "open"])
def test_a_clean_run_has_no_findings(generation: str) -> None:
    subject = run(clean_network(), MACHINES[generation])
    found = {rule for rule in advices() if findings(rule, subject)}
    assert found == set()


def splits(rule: str, graph: Graph, generation: str) -> list[object]:
    found = findings(rule, run(graph, MACHINES[generation]))
    offered = [fix for finding in found for fix in finding.fixes if fix.id == "split-outputs"]
    return [fix.parameters["parts"] for fix in offered]


def test_a_split_pays_for_what_joins_its_parts() -> None:
    """In 2.x unequal parts are joined by a library call; zeros beside the channels need none."""
    assert splits("ADV-CHANNELS", conv(64, 257, 8), "4.0") == ["240+17"]
    assert splits("ADV-CHANNELS", conv(64, 257, 8), "2.2") == []
    assert splits("ADV-CHANNELS", conv(64, 778, 8), "4.0") == ["768+10"]
    assert splits("ADV-CHANNELS", conv(64, 778, 8), "2.2") == []


def test_parts_are_equal_where_others_are_joined_by_the_cpu() -> None:
    assert splits("ADV-VECTORS", conv(64, 1000, 16), "4.0") == ["504+496"]
    assert splits("ADV-VECTORS", conv(64, 1000, 16), "2.2") == ["500+500"]


def test_a_layer_in_several_epochs_is_told_with_the_time_of_all() -> None:
    """A 7x7 kernel is cut into pieces, two an epoch: no fix saves more than all of them take."""
    subject = run(conv(31, 31, 16, 7), MACHINES["4.0"])
    (found,) = findings("ADV-CHANNELS", subject)
    times = [r.ms for e, r in subject.epochs(EpochKind.HW) if convolutions(e)]
    assert len(times) > 1
    assert found.evidence["ms"] == pytest.approx(sum(times), abs=1e-5)
    assert all(fix.gain_ms <= found.evidence["ms"] for fix in found.fixes if fix.gain_ms)
