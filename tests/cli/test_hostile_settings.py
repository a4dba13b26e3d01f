"""Values of users that are out of all proportion: a sentence, never a bug, never a wait."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from advice.sweep.samples import failed, row
from models import mobilenet_like, save, to_onnx, to_tflite
from npuscope.advice.sweep.journal import check_row
from npuscope.bounded_file import MACHINE, read_toml
from npuscope.cli.main import main
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core import machine as manycore_machine
from npuscope.families.many_core.machine import load_core_machine
from npuscope.machine.load import load_machine, packaged
from npuscope.machine.set_keys import leaves, machine_keys

Capture = pytest.CaptureFixture[str]
NET = mobilenet_like(size=6, width=4)
NUMBERS = ("0", "-1", "1", "1e308", str(2**63), "nan", "1e-300", "65536", "1000000", "1e9", "0.001")
LISTS = ("[]", "[0]", "[-1]", "[65536]", '[""]', "[1]", "[2, 1]")
KEYS = machine_keys(load_machine())
CORE_FILE = Path(manycore_machine.__file__).parent / "cloudai100.toml"
CORE_KEYS = leaves({k: v for k, v in read_toml(CORE_FILE, MACHINE).items() if isinstance(v, dict)})
SAMPLES = 60


def pairs(values: dict[str, Any]) -> list[str]:
    """KEY=VALUE for every key that is a number, or a list."""
    return [
        f"{key}={text}"
        for key, value in values.items()
        if not isinstance(value, bool | str)
        for text in (LISTS if isinstance(value, list | tuple) else NUMBERS)
    ]


PAIRS = pairs({name: key.value for name, key in KEYS.items()})
CORE_PAIRS = pairs({name: owner[last] for name, (owner, last) in CORE_KEYS.items()})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model"), "m.tflite", to_tflite(NET))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    source = save(folder, "m.onnx", to_onnx(NET))
    words = [f"-model={source}", f"-aic-binary-dir={folder / 'qpc'}"]
    assert main(["manycore", "compile", *words]) == 0
    return folder / "qpc"


@pytest.mark.parametrize("pair", random.Random(1).sample(PAIRS, SAMPLES))
def test_any_key_of_the_machine(pair: str, model: Path, capsys: Capture) -> None:
    assert main(["estimate", str(model), "--json", "--set", pair]) in (0, 2, 3)
    assert "bug" not in capsys.readouterr().err


@pytest.mark.parametrize("pair", random.Random(2).sample(CORE_PAIRS, SAMPLES))
def test_any_key_of_the_many_core_machine(pair: str, program: Path, capsys: Capture) -> None:
    assert main(["manycore", "run", "-t", str(program), "--set", pair]) in (0, 2, 3)
    assert "bug" not in capsys.readouterr().err


@pytest.mark.parametrize("value", [-1, 1e308, 2**63, 10**400, float("nan"), float("inf")])
def test_no_key_takes_what_is_beyond_all_measure(value: float) -> None:
    free = {name for name in KEYS if name.endswith(".score")}
    for name, key in KEYS.items():
        if not isinstance(key.value, bool | str | tuple) and name not in free:
            with pytest.raises(UsageError):
                load_machine(overrides={name: value})
    for name, (owner, last) in CORE_KEYS.items():
        if not isinstance(owner[last], list):
            with pytest.raises(UsageError):
                load_core_machine(overrides={name: value})


SETTINGS = {
    "pool.max_fused_channels=0": "--set pool.max_fused_channels: must be above 0, found 0",
    "units.CONVACC=0": "--set units.CONVACC: must be above 0, found 0",
    "timing.pair_cycles=1e308": "--set timing.pair_cycles: must be at most 1e+09, found 1e+308",
    "clocks.npu_mhz=1e-9": "--set clocks.npu_mhz: must be at least 0.001, found 1e-09",
    f"clocks.npu_mhz={'9' * 4400}": "--set clocks.npu_mhz: a number has too many digits",
    f"clocks.npu_mhz={'[' * 3000}": "--set clocks.npu_mhz: nested too deeply",
    "clocks.npu_mhz=nan": "--set clocks.npu_mhz: a number is not finite (nan)",
}


@pytest.mark.parametrize(("pair", "told"), SETTINGS.items(), ids=lambda text: text[:40])
def test_settings_that_are_refused(pair: str, told: str, model: Path, capsys: Capture) -> None:
    assert main(["estimate", str(model), "--set", pair]) == 2
    assert capsys.readouterr().err == f"npuscope: {told}\n"


def test_a_latency_without_end(program: Path, capsys: Capture) -> None:
    words = ["manycore", "run", "-t", str(program), "--set", "noc.latency_us=2000000000"]
    assert main(words) == 2
    assert capsys.readouterr().err == (
        "npuscope: --set noc.latency_us: must be at most 1e+07, found 2e+09\n"
    )


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        (
            ("clocks.core_mhz=0.001", "clocks.dvfs_period_us=1e9", "dma.issue_cycles=1e9"),
            "one inference takes more than 600 s of the machine's time",
        ),
        (
            ("clocks.core_mhz=0.001", "clocks.dvfs_period_us=1"),
            "one inference takes more than 300,000 steps of the core's clock",
        ),
    ],
)
def test_a_run_of_many_cores_ends(
    pairs: tuple[str, ...], told: str, program: Path, capsys: Capture
) -> None:
    words = [word for pair in pairs for word in ("--set", pair)]
    assert main(["manycore", "run", "-t", str(program), *words]) == 3
    assert capsys.readouterr().err == (
        f"npuscope: machine: {told}\n"
        "  hint: a size in the program or a rate of the machine is far out of range\n"
    )


def test_a_shape_of_digits_without_end(model: Path, capsys: Capture) -> None:
    assert main(["estimate", str(model), "--shape", f"x={'9' * 4400}"]) == 2
    assert "--shape: expected NAME=1,224,224,3, found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "dense8x8 = { kernels = 8, depth = 8 }\n",
            "",
            "convacc.tiles.dense8x8: this key is missing",
        ),
        ("CONVACC = 4\n", "", "units.CONVACC: this key is missing"),
        (
            "max_vector = 512",
            "max_vectr = 512",
            "arith.max_vectr: unknown key\n  hint: did you mean max_vector?",
        ),
        ("max_stride = 7", "max_stride = 0", "convacc.max_stride: must be above 0, found 0"),
    ],
)
def test_machine_files_that_are_refused(
    old: str, new: str, told: str, tmp_path: Path, model: Path, capsys: Capture
) -> None:
    text = packaged("stm32n6").read_text(encoding="utf-8")
    assert old in text
    path = save(tmp_path, "m.toml", text.replace(old, new, 1).encode())
    assert main(["estimate", str(model), "--machine-file", str(path)]) == 3
    assert capsys.readouterr().err.startswith(f"npuscope: {path}: {told}")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"total_ms": "fast"}, "total_ms: expected a number, found 'fast'"),
        ({"total_ms": -1.0}, "total_ms: must not be negative, found -1"),
        ({"total_ms": float("nan")}, "a number is not finite (nan)"),
        ({"internal_ram_bytes": None}, "internal_ram_bytes: expected a whole number, found null"),
        ({"model": 3}, "model: expected text, found 3"),
        ({"status": "lost"}, "status: expected one of ok, failed"),
        ({"notes": [1]}, "notes[0]: expected text, found 1"),
        ({"macs": []}, "macs: expected a single value"),
    ],
)
def test_rows_of_a_store_are_checked(
    change: dict[str, Any], told: str, tmp_path: Path, capsys: Capture
) -> None:
    rows = [row("a"), row("b", **change)]
    lines = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in rows)
    path = save(tmp_path, "s.jsonl", lines.encode())
    assert main(["sweep", "report", str(path)]) == 3
    assert capsys.readouterr().err == f"npuscope: {path}: line 2: {told}\n"


@pytest.mark.parametrize("column", [name for name in row("a") if name not in ("schema", "notes")])
def test_a_row_without_a_column(column: str) -> None:
    check_row(row("a"))
    check_row(failed("a"))
    rest = {name: value for name, value in row("a").items() if name != column}
    with pytest.raises(FileError) as caught:
        check_row(rest)
    assert caught.value.where == column


def test_a_direction_that_is_none(model: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "program"
    assert main(["compile", str(model), "-o", str(folder)]) == 0
    file = folder / "program.json"
    record = json.loads(file.read_text())
    units = [u for e in record["epochs"] for g in e.get("groups") or () for u in g["units"]]
    next(unit for unit in units if "addr_base" in unit)["dir"] = 2
    file.write_text(json.dumps(record))
    capsys.readouterr()
    assert main(["estimate", str(folder)]) == 3
    assert ".dir: must be at most 1, found 2\n" in capsys.readouterr().err


def test_a_hardware_epoch_without_units(model: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "program"
    assert main(["compile", str(model), "-o", str(folder)]) == 0
    file = folder / "program.json"
    record = json.loads(file.read_text())
    del next(epoch for epoch in record["epochs"] if epoch.get("groups"))["groups"]
    file.write_text(json.dumps(record))
    capsys.readouterr()
    assert main(["estimate", str(folder)]) == 3
    assert "the epoch runs on hardware but configures no unit" in capsys.readouterr().err
