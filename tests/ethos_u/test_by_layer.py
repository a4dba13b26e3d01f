"""validate and bisect of a program of Vela's, layer by layer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_onnx, to_tflite
from npuscope.errors import UsageError
from npuscope.families.ethos_u.container import read_vela

pytest.importorskip("ethosu.vela", reason="Vela is not installed")
MACHINES = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


@pytest.fixture(params=(to_tflite, to_onnx), ids=("tflite", "onnx"))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name = f"net.{request.param.__name__.removeprefix('to_')}"
    return save(tmp_path, name, request.param(mobilenet_like()))


@pytest.mark.parametrize("machine", MACHINES)
def test_layers_are_compared_and_agree(machine: str, model: Path) -> None:
    result = npuscope.validate(model, machine=machine)
    assert result.passed and not result.broken
    assert result.layers_compared > 0.6 * result.layers_total
    assert npuscope.bisect(model, machine=machine).layers == result.layers_compared


def _differing(model: Path, compiled: Path) -> str:
    found = npuscope.bisect(compiled, model=model)
    assert found.layers > 3
    return "" if found.first is None or found.first.max_lsb <= 1 else str(found.op)


@pytest.mark.parametrize("machine", MACHINES)
def test_flipped_weights_of_a_program_are_found(machine: str, tmp_path: Path) -> None:
    """With Vela's names beside the file, and without: then Vela is asked again."""
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    npuscope.compile(model, directory=tmp_path / "out", machine=machine)
    compiled = tmp_path / "out" / "net_vela.tflite"
    assert not _differing(model, compiled)
    data = bytearray(compiled.read_bytes())
    constants = next(iter(read_vela(bytes(data)).offloads.values())).constants
    start = bytes(data).index(constants.tobytes())
    # A bit of the first bias: every weight of its channel is as it was.
    data[start + 1] ^= 0x40
    compiled.write_bytes(data)
    first = next(iter(npuscope.validate(model, machine=machine).layers)).origin[0]
    assert _differing(model, compiled) == first
    alone = shutil.copy(compiled, tmp_path / "alone_vela.tflite")
    assert _differing(model, Path(alone)) == first


def test_a_network_with_other_weights_is_found(tmp_path: Path) -> None:
    net = mobilenet_like()
    model = save(tmp_path, "net.tflite", to_tflite(net))
    weights = net.layers[2].weights
    assert weights is not None
    weights[...] ^= 0x20
    other = save(tmp_path, "other.tflite", to_tflite(net))
    found = npuscope.bisect(other, machine="ethos-u55-128", model=model)
    assert found.first is not None and found.first.max_lsb > 1
    assert found.first.origin[0].endswith(":#2")


def test_kernels_of_another_network_have_no_names(tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    other = save(tmp_path, "other.tflite", to_tflite(mobilenet_like(width=16)))
    npuscope.compile(model, directory=tmp_path / "out", machine="ethos-u55-128")
    (tmp_path / "out" / "net_debug.xml").unlink()
    with pytest.raises(UsageError, match="makes other kernels of the model"):
        npuscope.bisect(tmp_path / "out" / "net_vela.tflite", model=other)
