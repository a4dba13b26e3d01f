"""Networks of a plan on one emulated board: outputs equal those of each alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from models import conv_net, mobilenet_like, save, to_tflite

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "plan_emulated.py"


@pytest.fixture(scope="module")
def script() -> Any:
    for module in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")
    spec = importlib.util.spec_from_file_location("plan_emulated", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_networks_with_weights_on_chip_run_in_turns(tmp_path: Path, script: Any) -> None:
    """Weights that another network may have run over are copied again, before inputs arrive."""
    models = [
        save(tmp_path, "a.tflite", to_tflite(mobilenet_like())),
        save(tmp_path, "b.tflite", to_tflite(conv_net(size=16, out=8))),
    ]
    plan = script.planned(tmp_path, models)
    assert all(network.variant.grant.weights for network in plan.networks)
    images = [script.image(tmp_path, f"net{n}", model) for n, model in enumerate(models)]
    alone = [script.outputs([image], [0])[0] for image in images]
    assert alone[0] != alone[1]
    assert script.outputs(images, [0, 1, 0, 1]) == [*alone, *alone]
