"""The verb as a whole: what is tried, kept and refused, and what the result is."""

from __future__ import annotations

from math import hypot, inf
from pathlib import Path

import numpy as np
import pytest

import npuscope
from edits.channel_case import LiteNet, QdqNet
from edits.channel_nets import denoiser, shuffle_net
from models import Net, OnnxWriter, mobilenet_like, save, to_onnx, to_tflite
from npuscope.advice.catalogue import catalogue
from npuscope.advice.fix.candidates import Candidate, FixChoice, FixPlace, only
from npuscope.advice.fix.judge import judge, resolution_ms
from npuscope.advice.fix.numeric import OutputEffect, effects
from npuscope.advice.fix.program_bench import ProgramBench, layers_on_cpu
from npuscope.advice.fix.run import Fixed, FixStep
from npuscope.advice.fix.workbench import Look
from npuscope.edits import edits, formats, open_document
from npuscope.errors import TargetError, UsageError
from npuscope.files.load import load_model, read_model
from npuscope.program.model import Call, EpochKind
from npuscope.report.fix import answer
from npuscope.rulebook.finding import Finding, Fix, Severity
from npuscope.rulebook.fix import FunctionEffect
from npuscope.structs import replace

EXACT = (OutputEffect("y", "y", 0.0, 1.0, inf),)


def prelu_net(folder: Path) -> Path:
    """A layer, a PReLU with float slopes, a layer."""
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 8, 16, 16)), 1 / 64, 0)
    rng = np.random.default_rng(1)
    for name, outputs in (("first", 16), ("second", 16)):
        inputs = 8 if name == "first" else 16
        values = rng.integers(-127, 128, (outputs, inputs, 1, 1)).astype(np.int8)
        weights = w.dequantized_constant(values, np.full(outputs, 0.002))
        x = w.qdq(w.node("Conv", x, weights, name=name), 0.03, 0)
        if name == "first":
            slopes = w.constant(rng.uniform(0.05, 0.3, (outputs, 1, 1)).astype(np.float32))
            x = w.qdq(w.node("PRelu", x, slopes, name="act"), 0.03, 0)
    return save(folder, "prelu.onnx", w.finish({x: (1, 16, 16, 16)}))


def scores_net(folder: Path) -> Path:
    net = Net((1, 12, 12, 8), input_zero_point=0)
    net.conv(16)
    net.mean()
    net.dense(10)
    net.softmax()
    return save(folder, "scores.tflite", to_tflite(net))


def step(fixed: Fixed, fix: str) -> FixStep:
    return next(found for found in fixed.steps if found.candidate.fix.id == fix)


def test_slopes_are_quantized_and_the_prelu_comes_to_the_npu(tmp_path: Path) -> None:
    path = prelu_net(tmp_path)
    fixed = npuscope.fix(path)
    found = step(fixed, "quantize-slope")
    assert found.outcome.kept and found.outcome.reason == "faster"
    assert fixed.before.counts["SW"] == 3
    assert fixed.after.counts["SW"] == 0
    assert fixed.after.total_ms < fixed.before.total_ms
    assert sum(s.saved_ms for s in fixed.applied) == pytest.approx(
        fixed.before.total_ms - fixed.after.total_ms
    )
    assert min(e.sqnr_db for e in fixed.effects) > 30
    assert fixed.runtime is not None and fixed.runtime.name == "onnxruntime"
    assert all(effect.sqnr_db > 30 for effect in fixed.runtime.effects)


def test_no_layer_of_the_denoiser_stays_on_the_cpu(tmp_path: Path) -> None:
    """257 channels: the case that a compiler's log calls 'scale-offset format'."""
    fixed = npuscope.fix(save(tmp_path, "denoiser.onnx", denoiser()), generation="2.2")
    kernels = [
        [name for epoch in run.epochs if epoch.kind is EpochKind.SW for name in epoch.operators]
        for run in (fixed.before, fixed.after)
    ]
    assert kernels == [["Conv", "Gemm", "Conv"], []]
    assert all(effect.exact for effect in fixed.effects)
    assert fixed.runtime is not None
    assert all(effect.exact for effect in fixed.runtime.effects)
    # What the three layers take on the CPU is a lower bound, so the gain may be larger.
    assert fixed.after.total_ms < 1.05 * fixed.before.total_ms


@pytest.mark.parametrize(("net", "ending"), [(QdqNet, "onnx"), (LiteNet, "tflite")])
def test_a_shuffle_net_is_padded(net: type[QdqNet | LiteNet], ending: str, tmp_path: Path) -> None:
    fixed = npuscope.fix(save(tmp_path, f"shuffle.{ending}", shuffle_net(net())))
    assert step(fixed, "pad-channels").outcome.reason == "faster"
    assert all(effect.exact for effect in fixed.effects)
    assert fixed.after.total_ms < 0.5 * fixed.before.total_ms


def test_the_file_itself_is_not_touched(tmp_path: Path) -> None:
    path = prelu_net(tmp_path)
    data = path.read_bytes()
    fixed = npuscope.fix(path)
    assert path.read_bytes() == data
    assert fixed.data != data
    assert len(load_model(path).ops) > len(read_model(path, fixed.data).ops)


def test_where_nothing_helps_the_network_stays(tmp_path: Path) -> None:
    net = Net((1, 32, 32, 3), input_scale=1 / 128, input_zero_point=0)
    net.conv(16, stride=2)
    path = save(tmp_path, "clean.tflite", to_tflite(net))
    fixed = npuscope.fix(path)
    assert fixed.applied == ()
    assert read_model(path, fixed.data) == load_model(path)
    assert all(effect.exact for effect in fixed.effects)


def test_the_border_changes_only_when_asked(tmp_path: Path) -> None:
    path = scores_net(tmp_path)
    usual = npuscope.fix(path)
    assert not {"drop-softmax", "cut-tail"} & {s.candidate.fix.id for s in usual.steps}
    assert step(npuscope.fix(path, drop_softmax=True), "drop-softmax").outcome.kept
    cut = step(npuscope.fix(path, cut=True), "cut-tail")
    assert cut.outcome.reason == "asked for"
    assert cut.candidate.notes[-1] == "in the application: SOFTMAX:#3"
    # What the network no longer does is not gained: the answer says so.
    assert cut.candidate.left_ms == pytest.approx(usual.before.time.software_ms)
    told = f"; the part left to the application took {cut.candidate.left_ms:.3f} ms here"
    assert answer(npuscope.fix(path, cut=True)).endswith(told)


def test_a_cut_network_gives_what_the_original_had_inside(tmp_path: Path) -> None:
    fixed = npuscope.fix(scores_net(tmp_path), cut=True)
    (effect,) = fixed.effects
    assert effect.exact
    assert effect.reference == effect.output


def test_a_float_border_by_option_is_undone(tmp_path: Path) -> None:
    path = save(tmp_path, "net.onnx", to_onnx(mobilenet_like()))
    fixed = npuscope.fix(path, integer_io=True, input_data_type="float32")
    assert fixed.steps[0].candidate.fix.title == "compile without float32 inputs and outputs"
    assert fixed.after.counts["SW"] < fixed.before.counts["SW"]


def test_the_application_is_told_of_other_integers(tmp_path: Path) -> None:
    """The input's zero point of -3 becomes 0: the same reals are other integers."""
    path = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    (name,) = load_model(path).inputs
    found = step(npuscope.fix(path, only=["zero-point"]), "zero-point")
    assert found.notes == (
        f"input {name} is int8 (scale 0.015625, zero point 0) now, "
        "was int8 (scale 0.015625, zero point -3)",
    )


def test_only_what_is_named_is_tried(tmp_path: Path) -> None:
    path = prelu_net(tmp_path)
    assert npuscope.fix(path, only=["LINT-DUPLICATE"]).steps == ()
    named = npuscope.fix(path, only=["quantize-slope"])
    assert {s.candidate.fix.id for s in named.steps} == {"quantize-slope"}
    assert step(named, "quantize-slope").outcome.reason == "asked for"


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError) as error:
        only(["quantise-slope"])
    assert error.value.message == "unknown rule or fix 'quantise-slope'"
    assert "quantize-slope" in error.value.hint


def test_what_cannot_be_run_is_not_edited(tmp_path: Path) -> None:
    w = OnnxWriter()
    data = w.finish({w.node("NonZero", w.input("x", (1, 3))): None})
    with pytest.raises(TargetError, match=r"does not know \(NonZero\)"):
        npuscope.fix(save(tmp_path, "odd.onnx", data))


def test_every_automatic_fix_has_an_edit_and_every_edit_a_rule() -> None:
    offered = [fix for info in catalogue().values() for fix in info.fixes]
    assert all(formats(fix.id) for fix in offered if fix.automatic)
    assert edits().keys() <= {fix.id for fix in offered}


# what helps


@pytest.fixture
def look(tmp_path: Path) -> Look:
    path = scores_net(tmp_path)
    return ProgramBench(path, {}).look(open_document(path))


def changed(look: Look, share: float, **memory: int) -> Look:
    profile = look.profile
    return replace(
        look,
        profile=replace(
            profile,
            total_ms=profile.total_ms * (1 + share),
            memory=replace(profile.memory, **memory),
        ),
    )


def candidate(**changes: object) -> Candidate:
    fix = Fix("some-fix", "do something")
    made = Candidate("LINT-DUPLICATE", fix, (FixPlace(("a",), fix),))
    return replace(made, **changes)  # type: ignore[arg-type]


def no_risks(_: Look) -> tuple[Finding, ...]:
    return ()


def test_faster_is_kept_slower_is_not(look: Look) -> None:
    for share, kept, reason in ((-0.01, True, "faster"), (0.01, False, "it is slower")):
        outcome = judge(candidate(), look, changed(look, share), EXACT, no_risks)
        assert (outcome.kept, outcome.reason) == (kept, reason)
    still = judge(candidate(), look, changed(look, 0.0), EXACT, no_risks)
    assert (still.kept, still.reason) == (False, "it does not help")


def slower(look: Look, number: int, factor: float) -> Look:
    """One epoch takes another time."""
    epochs = list(look.profile.epochs)
    epochs[number] = replace(epochs[number], ms=factor * epochs[number].ms)
    more = epochs[number].ms - look.profile.epochs[number].ms
    total_ms = look.profile.total_ms + more
    low = look.profile.interval_ms[0] / look.profile.total_ms * total_ms
    interval = (low, look.profile.interval_ms[1])
    profile = replace(look.profile, epochs=tuple(epochs), total_ms=total_ms, interval_ms=interval)
    return replace(look, profile=profile)


def test_a_gain_within_the_error_of_the_predictions_is_none(look: Look) -> None:
    """What both programs share is off by the same: only epochs that differ make it uncertain."""
    small = judge(candidate(), look, slower(look, 1, 0.9), EXACT, no_risks)
    assert not small.kept
    assert "is within the error of the two predictions" in small.reason
    large = judge(candidate(), look, slower(look, 1, 0.3), EXACT, no_risks)
    assert (large.kept, large.reason) == (True, "faster")
    after = slower(look, 1, 0.9).profile
    share = 1 - look.profile.interval_ms[0] / look.profile.total_ms
    expected = share * hypot(look.profile.epochs[1].ms, after.epochs[1].ms)
    assert resolution_ms(look.profile, after) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (OutputEffect("y", "y", 3.0, 0.4, 24.0), "answers change, SQNR 24 dB: --lossy allows it"),
        (
            OutputEffect("y", "y", 1.0, 0.9, 45.0, 0.5),
            "answers change, the top score at 50.0% of the positions: --lossy allows it",
        ),
    ],
)
def test_answers_change_only_on_request(look: Look, effect: OutputEffect, reason: str) -> None:
    faster = changed(look, -0.5)
    assert judge(candidate(), look, faster, (effect,), no_risks).reason == reason
    assert judge(candidate(may_change=True), look, faster, (effect,), no_risks).kept
    assert judge(candidate(forced=True), look, faster, (effect,), no_risks).kept
    # One edit more may be one too many.
    assert judge(candidate(), look, faster, EXACT, no_risks, (effect,)).reason == reason


def test_layers_of_unknown_time_leave_the_cpu(look: Look) -> None:
    call = Call("FullyConnected", (), ())
    epochs = (replace(look.build.program.executed[0], call=call), *look.build.program.epochs)
    program = replace(look.build.program, epochs=epochs)
    before = replace(look, layers_on_cpu=layers_on_cpu(replace(look.build, program=program)))
    outcome = judge(candidate(), before, slower(look, 1, 1.05), EXACT, no_risks)
    assert outcome.reason == "layers leave the CPU, where their time was unknown"
    outcome = judge(candidate(), before, changed(look, 0.5), EXACT, no_risks)
    assert outcome.reason == "it is slower"  # by more than the error of the guess


def test_results_that_differ_too_much_are_refused(look: Look) -> None:
    noisy = (OutputEffect("y", "y", 90.0, 0.1, 11.4),)
    outcome = judge(candidate(), look, changed(look, -0.5), noisy, no_risks)
    unrest = look.network.unrest_db
    assert outcome.reason == (
        "the results differ too much (SQNR 11 dB; one step more in every 256th input value gives "
        f"{unrest:.0f} dB): --only applies it"
    )
    assert 10 < unrest < 80
    assert judge(candidate(forced=True), look, changed(look, 0.5), noisy, no_risks).kept


def test_a_step_of_an_output_is_rounding_however_small_the_output(look: Look) -> None:
    rounded = (OutputEffect("y", "y", 1.0, 0.5, 8.5),)
    assert judge(candidate(), look, changed(look, -0.5), rounded, no_risks).kept


def test_more_external_ram_is_refused(look: Look) -> None:
    spilled = changed(look, -0.5, external_ram_bytes=1)
    outcome = judge(candidate(), look, spilled, EXACT, no_risks)
    assert outcome.reason == "it needs more external RAM: --only applies it"


def test_a_hazard_goes_where_that_costs_nothing(look: Look) -> None:
    bench = ProgramBench(Path("net.tflite"), {})
    finding = replace(
        bench.risks(look)[0], rule="LINT-DUPLICATE", severity=Severity.WARNING, ops=("a",)
    )
    exact = Fix("some-fix", "do something", function=FunctionEffect.EXACT)
    risky = candidate(severity=Severity.WARNING, fix=exact)
    for share, kept in ((0.0005, True), (0.05, False)):
        outcome = judge(
            risky,
            look,
            changed(look, share),
            EXACT,
            lambda seen: (finding,) if seen is look else (),
        )
        assert outcome.kept is kept
    rounding = candidate(severity=Severity.WARNING)
    note = judge(
        rounding,
        look,
        changed(look, 0.0005),
        EXACT,
        lambda seen: (finding,) if seen is look else (),
    )
    assert not note.kept


def test_choice_of_fixes() -> None:
    kept = Fix("share-result", "", function=FunctionEffect.EXACT)
    lossy = Fix("nearest-resize", "", function=FunctionEffect.CHANGED)
    moved = Fix("drop-softmax", "", function=FunctionEffect.MOVED)
    assert FixChoice().allows("R", kept)
    assert not FixChoice(only=frozenset({"X"})).allows("R", kept)
    assert not FixChoice().allows("R", lossy)
    assert not FixChoice(everything=True).allows("R", lossy)
    assert FixChoice(lossy=True).allows("R", lossy)
    assert FixChoice(only=frozenset({"R"})).allows("R", lossy)
    assert FixChoice(only=frozenset({"nearest-resize"})).allows("R", lossy)
    assert not FixChoice(only=frozenset({"X"}), lossy=True).allows("R", lossy)
    assert not FixChoice().allows("R", moved)
    assert FixChoice(everything=True).allows("R", moved)
    assert FixChoice(drop_softmax=True).allows("R", moved)


# what is measured


def test_effects_count_in_steps_of_the_original(tmp_path: Path) -> None:
    path = scores_net(tmp_path)
    graph = load_model(path)
    document = open_document(path)
    dense = next(op for op in document.nodes if op.word == "FULLY_CONNECTED")
    bias = dense.inputs[2]
    assert bias is not None and bias.data is not None and bias.quant is not None
    output = dense.outputs[0]
    assert output.quant is not None
    one_step = round(output.quant.scale / bias.quant.scale)
    bias.data = bias.data + np.int32(3 * one_step)
    document.network_outputs = [output]
    (effect,) = effects(graph, read_model(path, document.to_bytes()), 2)
    assert 2 <= effect.max_lsb <= 4
    assert not effect.exact
    assert effect.exact_share == 0.0
    assert 0 < effect.sqnr_db < 60


def test_an_output_without_counterpart_is_said(tmp_path: Path) -> None:
    one, other = Net((1, 4, 4, 3)), Net((1, 4, 4, 3))
    one.conv(8)
    other.conv(9)
    first = read_model(tmp_path / "a.tflite", to_tflite(one))
    second = read_model(tmp_path / "b.tflite", to_tflite(other))
    (effect,) = effects(first, second, 1)
    assert effect.reference is None
    assert not effect.exact
