"""Small sweeps: models made in code, a sweep file around them, rows without a compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from models import conv_net, dense_net, save, to_tflite
from npuscope.advice.sweep.runs import ROW_SCHEMA, SweepRun, expand
from npuscope.advice.sweep.spec import read_spec

NO_EXTERNAL = '[[pools]]\nname = "default"\n[[pools]]\nname = "internal"\n' + (
    "set = { pools.hyperRAM.size_kib = 0 }\n"
)


def two_models(folder: Path) -> None:
    save(folder, "conv.tflite", to_tflite(conv_net()))
    save(folder, "dense.tflite", to_tflite(dense_net()))


def spec_file(folder: Path, text: str, name: str = "sweep.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def small_sweep(folder: Path, more: str = "") -> Path:
    """Two models in two generations, or more."""
    two_models(folder)
    return spec_file(folder, f'models = ["*.tflite"]\ngenerations = ["2.2", "4.0"]\n{more}')


def long_sweep(folder: Path, steps: int = 60) -> Path:
    """So many runs that something can happen in between."""
    clocks = "".join(f"[[clocks]]\nnpu_mhz = {500 + step}\n" for step in range(steps))
    return small_sweep(folder, clocks)


def runs_of(spec: Path) -> tuple[SweepRun, ...]:
    return expand(read_spec(spec))


def lines_of(store: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.read_text(encoding="utf-8").splitlines()]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """What must be the same wherever a run was done."""
    return {key: value for key, value in row.items() if key != "seconds"}


def row(key: str, model: str = "a.tflite", **columns: Any) -> dict[str, Any]:
    """A row that was done; `error` makes it one that was not."""
    found: dict[str, Any] = {
        "schema": ROW_SCHEMA,
        "key": key,
        "model": model,
        "model_sha256": "00",
        "model_md5": "11",
        "shapes": {},
        "machine": "stm32n6",
        "generation": "4.0",
        "epoch_controller": True,
        "pools": "default",
        "clocks": "default",
        "set": "",
        "mcu_mhz": 800.0,
        "npu_mhz": 1000.0,
        "optimization": None,
        "input_data_type": None,
        "output_data_type": None,
        "status": "ok",
        "total_ms": 2.0,
        "low_ms": 1.8,
        "high_ms": 2.2,
        "internal_ram_bytes": 4096,
        "external_ram_bytes": 0,
        "weights_bytes": 1000,
        "notes": [],
        "seconds": 0.5,
        "version": "0.1.0",
    }
    return found | columns


def failed(key: str, message: str = "no room", **columns: Any) -> dict[str, Any]:
    error = {"kind": "target", "message": message, "where": "a.tflite", "hint": "a smaller one"}
    found = row(key, status="failed", error=error, **columns)
    figures = ("total_ms", "low_ms", "high_ms", "internal_ram_bytes", "external_ram_bytes")
    return {name: value for name, value in found.items() if name not in figures}
