from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from identify.edge_tpu import edge_tpu_file, package
from npuscope.errors import FileError, ModelError
from npuscope.identify.path import identify


def _file(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "net_edgetpu.tflite"
    path.write_bytes(data)
    return path


def test_the_container_tells_chip_and_bytes(tmp_path: Path) -> None:
    identity = identify(_file(tmp_path, edge_tpu_file()))
    assert (identity.kind, identity.version) == ("edgetpu_tflite", "cl/343")
    facts = identity.summary
    assert (facts["chip"], facts["oldest runtime"]) == ("beagle", 13)
    assert facts["parameter bytes on chip"] == 300
    assert facts["parameter bytes off chip"] == 40
    assert facts["scratch bytes"] == 512
    assert facts["instruction bytes"] == 96
    assert facts["operators on the CPU"] == 1
    assert "nothing public" in facts["time"]


@pytest.mark.parametrize("content", [b"no package at all", package(b"\xff" * 40), b"\0\0\0\0DWN1"])
def test_a_damaged_package_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(FileError):
        npuscope.inspect(_file(tmp_path, edge_tpu_file(content)))


def test_it_is_not_timed(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Edge TPU") as error:
        npuscope.estimate(_file(tmp_path, edge_tpu_file()))
    assert "inspect" in error.value.hint
