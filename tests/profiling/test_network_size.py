"""Products and parameters from a program alone are those of the network it was compiled from."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.files.load import load_model
from npuscope.ops.table import total_macs
from npuscope.profiling.network_size import network_size
from npuscope.program.sources import read_program


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0"])
def test_sources_of_one_build_agree_with_the_network(generation: str, tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    graph = load_model(model)
    build = tmp_path / "build"
    npuscope.compile(model, build, generation=generation)
    assert network_size(read_program(build)) == (total_macs(graph), graph.parameters())
    (build / "program.json").unlink()
    macs, params = network_size(read_program(build / "network.c"))
    assert macs == pytest.approx(total_macs(graph), rel=0.05)
    assert params == pytest.approx(graph.parameters(), rel=0.1)
