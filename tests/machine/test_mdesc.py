from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models import dense_net, save, to_tflite
from npuscope.cli.main import main
from npuscope.errors import FileError
from npuscope.machine.load import load_machine
from npuscope.machine.vendor_options import apply_mdesc, read_mdesc

CONV = {"num": 2, "type": "CONVACC", "version": "5.1", "power": 30.1, "inPorts": [0, 0, 0]}


def engines(index: int, number: int, port: int) -> dict[str, Any]:
    return {
        "index": index,
        "num": number,
        "type": "STRENG",
        "version": "5.0",
        "power": 5.331,
        "inPorts": [0],
        "outPorts": [0],
        "params": [{"name": "MEM_PORT", "val": port}],
    }


def write(path: Path, accelerators: list[dict[str, Any]]) -> Path:
    machine = {"name": "small", "version": "0.0", "frequency": 1000, "accelerators": accelerators}
    text = json.dumps({"externals": {"mpool_name": "small"}, "machine": machine})
    path.write_text(text, encoding="utf-8")
    return path


def test_units_and_ports(tmp_path: Path) -> None:
    info = read_mdesc(write(tmp_path / "a.mdesc", [engines(0, 3, 0), engines(3, 4, 1), CONV]))
    assert (info.name, info.mpool_name, info.frequency_mhz) == ("small", "small", 1000.0)
    assert info.counts == {"STRENG": 7, "CONVACC": 2}
    assert info.engines_by_port == (3, 4)
    unit = info.unit("CONVACC")
    assert unit is not None
    assert (unit.version, unit.power_mw, unit.in_ports, unit.out_ports) == (
        "5.1",
        30.1,
        (0, 0, 0),
        (),
    )


def test_apply_takes_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mdesc", [engines(0, 3, 0), engines(3, 3, 1), CONV])
    machine = apply_mdesc(load_machine(), path)
    assert machine.units["STRENG"] == 6
    assert (machine.units["CONVACC"], machine.units["POOL"]) == (2, 0)
    assert machine.stream.engines_per_busif == 3


def test_a_machine_without_convolution_units_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mdesc", [engines(0, 3, 0)])
    with pytest.raises(FileError, match=r"a\.mdesc: names no CONVACC unit"):
        apply_mdesc(load_machine(), path)


def test_the_old_short_form(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mdesc", [{"num": 4, "type": "CONVACC"}])
    info = read_mdesc(path)
    assert info.counts == {"CONVACC": 4}
    assert info.engines_by_port == ()


@pytest.mark.parametrize(
    ("accelerators", "message"),
    [
        ([{"type": "CONVACC"}], "$.machine.accelerators[0].num: this key is missing"),
        ([{"num": -1, "type": "CONVACC"}], "'num' must not be negative, found -1"),
        ([{"num": 1.5, "type": "CONVACC"}], ".num: expected a whole number, found 1.5"),
    ],
)
def test_wrong_values(tmp_path: Path, accelerators: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(FileError) as caught:
        read_mdesc(write(tmp_path / "a.mdesc", accelerators))
    assert message in str(caught.value)


def test_the_command_line_reads_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(save(tmp_path, "net.tflite", to_tflite(dense_net())))
    assert main(["estimate", model, "--mdesc", str(tmp_path / "none.mdesc")]) == 3
    assert "none.mdesc: " in capsys.readouterr().err
