"""Advice comes true: what is promised is what the change gives when it is followed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuscope
from edits.moves_case import Lite, edited
from edits.test_nearest_resize import lite as bilinear
from edits.test_slope_instead import lite as leaky
from npuscope.advice.changes import Change
from npuscope.advice.explanation import Explanation
from npuscope.rulebook.fix import FunctionEffect, GainBasis


def model(folder: Path, data: bytes) -> Path:
    path = folder / "network.tflite"
    path.write_bytes(data)
    return path


def with_softmax(inside: bool = False) -> bytes:
    net, shape = Lite(), (1, 50, 40)
    x = net.op("LOGISTIC", [net.input(shape)], shape, 1 / 256, -128)
    y = net.op("SOFTMAX", [x], shape, 1 / 256, -128, Beta=1.0)
    return net.finish(net.op("LOGISTIC", [y], shape, 1 / 256, -128) if inside else y)


def dense(inputs: int = 512, outputs: int = 512) -> bytes:
    net, random = Lite(), np.random.default_rng(0)
    weights = random.integers(-127, 128, (outputs, inputs), np.int8)
    made = net.op(
        "FULLY_CONNECTED", [net.input((1, inputs)), net.constant(weights, 0.01)], (1, outputs)
    )
    return net.finish(made)


def change(found: Explanation, fix: str) -> Change:
    return next(one for one in found.tried if one.fix.id == fix)


def test_an_edit_saves_what_was_promised(tmp_path: Path) -> None:
    path = model(tmp_path, with_softmax())
    found = npuscope.explain(path)
    promise = change(found, "drop-softmax")
    assert promise.gain.basis is GainBasis.TIMED
    path.write_bytes(edited(path.read_bytes(), "drop-softmax", *promise.ops))
    after = npuscope.estimate(path).total_ms
    assert promise.gain.ms == pytest.approx(found.profile.total_ms - after)
    assert found.changes[0].key == promise.key


def test_work_that_moves_to_the_application_is_named(tmp_path: Path) -> None:
    found = npuscope.explain(model(tmp_path, with_softmax()))
    moves = change(found, "drop-softmax").gain.elsewhere
    assert moves == "the application then does a Softmax over 50 x 40 values"


def test_an_inner_softmax_is_not_dropped(tmp_path: Path) -> None:
    found = npuscope.explain(model(tmp_path, with_softmax(inside=True)))
    assert "drop-softmax" not in {fix.id for finding in found.findings for fix in finding.fixes}


def test_an_option_saves_what_was_promised(tmp_path: Path) -> None:
    path = model(tmp_path, dense())
    found = npuscope.explain(path)
    promise = change(found, "weights-on-chip")
    settings = {"pools.octoFlash.size_kib": 0, "pools.hyperRAM.size_kib": 0}
    after = npuscope.estimate(path, overrides=settings).total_ms
    assert promise.gain.ms == pytest.approx(found.profile.total_ms - after)
    assert found.profile.fit.on_chip
    for key in settings:
        assert f"--set {key}=0" in promise.fix.title


def test_weights_that_do_not_fit_are_not_kept_on_chip(tmp_path: Path) -> None:
    found = npuscope.explain(model(tmp_path, dense(2048, 2048)))
    assert not found.profile.fit.on_chip
    assert "weights-on-chip" not in {fix.id for f in found.findings for fix in f.fixes}


def test_what_was_not_compiled_is_a_bound(tmp_path: Path) -> None:
    found = npuscope.explain(model(tmp_path, dense()))
    fixes = [fix for finding in found.findings for fix in finding.fixes]
    tried = {one.fix.id for one in found.tried}
    for fix in fixes:
        if fix.gain.is_timed:
            assert fix.id in tried
        else:
            assert fix.gain.basis is (GainBasis.NONE if fix.gain.ms is None else GainBasis.BOUND)


def test_a_change_that_costs_time_is_told_and_not_offered(tmp_path: Path) -> None:
    found = npuscope.explain(model(tmp_path, bilinear((6, 7), (12, 14), 16)))
    promise = change(found, "nearest-resize")
    assert promise.fix.function is FunctionEffect.CHANGED
    offered = {one.key for one in found.changes}
    assert (promise.key in offered) is ((promise.gain_ms or 0.0) > 0)


def test_an_edit_in_place_of_a_maximum(tmp_path: Path) -> None:
    path = model(tmp_path, leaky())
    found = npuscope.explain(path)
    promise = change(found, "slope-instead")
    fixed = npuscope.fix(path, only=["slope-instead"])
    assert promise.gain.ms == pytest.approx(fixed.before.total_ms - fixed.after.total_ms)
