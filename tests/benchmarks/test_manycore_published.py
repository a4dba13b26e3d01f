"""Published runs of a Cloud AI 100 beside setups/model.py, on networks that are built in code."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.setups.model import CardSetup, SetupPrediction, predict
from npuscope.families.many_core.setups.work import NetworkWork, network_work

FOLDER = Path(__file__).parents[2] / "benchmarks"
MACHINE = load_core_machine()
BERT_MINI = (4, 256, 4, 1024, 30522, "hidden")
BERT_BASE = (12, 768, 12, 3072, 30522, "answers")


@cache
def nets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("published_nets", FOLDER / "published_nets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def work(model: str, size: int, *shape: object) -> NetworkWork:
    return network_work(nets().network(nets().Published(model, 1, size, *shape)), MACHINE)


def predicted(model: str, size: int, setup: CardSetup, *shape: object) -> SetupPrediction:
    return predict(work(model, size, *shape), MACHINE, setup)


# quic/cloud-ai-sdk: lut_cv_classifiers.csv and lut_nlp_models.csv, inferences per second.
@pytest.mark.parametrize(
    ("model", "size", "setup", "per_s"),
    [
        ("shufflenet_v2_x0_5", 224, CardSetup(12), 1247.0),
        ("shufflenet_v2_x1_5", 224, CardSetup(6, 2), 1995.3),
        ("shufflenet_v2_x1_5", 224, CardSetup(4, 3), 2934.4),
        ("efficientnet_v2_s", 384, CardSetup(1, 14, 1, 4), 1628.5),
        ("efficientnet_v2_s", 384, CardSetup(7, 2), 649.2),
        ("resnet152", 224, CardSetup(4, 3), 782.3),
        ("squeezenet1_1", 224, CardSetup(14), 2492.9),
        ("densenet169", 224, CardSetup(6, 2), 1242.0),
    ],
)
def test_published_rates_of_image_networks(
    model: str, size: int, setup: CardSetup, per_s: float
) -> None:
    found = predicted(model, size, setup)
    assert found.inferences_per_s == pytest.approx(per_s, rel=0.25)
    low, high = found.interval
    assert low * found.period_ms <= setup.copies / per_s * 1e3 <= high * found.period_ms


def test_one_copy_of_an_encoder_takes_as_long_as_beside_six_others() -> None:
    """Two cores of a profiled BERT-base computed for 26.6 million cycles, alone and beside others.

    Loads run ahead of both engines, so that a road which is less full gives little.
    """
    alone, beside = (
        predicted("bert-base", 128, CardSetup(2, copies, 8), *BERT_BASE) for copies in (1, 7)
    )
    assert alone.device_ms * MACHINE.clocks.core_mhz / 1e3 == pytest.approx(26.6, rel=0.05)
    assert beside.device_ms < 1.12 * alone.device_ms


def test_an_engine_that_fills_its_blocks_with_less_takes_no_less_power() -> None:
    """34,759 inferences a second of a small encoder, 617 for each joule."""
    found = predicted("bert-mini", 128, CardSetup(1, 14, 10, 2), *BERT_MINI)
    assert found.watts == pytest.approx(34759.1 / 617, rel=0.1)
