"""Arm's compiler as a child process: it may crash without taking npuscope along."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import ceil
from pathlib import Path

from msgspec import Struct

from npuscope.errors import ModelError, UsageError
from npuscope.families.ethos_u.machine import EthosMachine
from npuscope.text import safe_terminal

_INSTALL = "pip install 'npuscope[ethos-u]', or --vela PATH names its command"
_STEM = "network"
_TIMEOUT_S = 600
_SHOWN = 300  # characters of what it said


class VelaOutput(Struct, frozen=True):
    """What Vela wrote: the file, its table of commands, and its own estimate."""

    file: bytes
    debug: str
    cycles: float | None
    reasons: Mapping[str, str] = {}  # why an operator stays on the CPU, by its first output


def vela_command(command: str = "") -> list[str]:
    """The command that was named, the package of this Python, or what PATH has."""
    if command:
        path = shutil.which(command)
        if path is None:
            raise UsageError("no such command", where=f"--vela {command}")
        return [path]
    if find_spec("ethosu") is not None and find_spec("ethosu.vela") is not None:
        return [sys.executable, "-P", "-m", "ethosu.vela"]
    if (path := shutil.which("vela")) is not None:
        return [path]
    raise UsageError("Vela, the compiler for Ethos-U, is not installed", hint=_INSTALL)


def vela_version(command: str = "") -> str:
    """Of the package of this Python; another command does not say which version it is."""
    if command:
        return ""
    try:
        return version("ethos-u-vela")
    except PackageNotFoundError:
        return ""


class VelaOptions(Struct, frozen=True):
    command: str = ""
    optimise: str = ""
    config: str = ""
    arena_cache_size: int | None = None


def run_vela(model: bytes, machine: EthosMachine, options: VelaOptions) -> VelaOutput:
    words = vela_command(options.command)
    with tempfile.TemporaryDirectory(prefix="npuscope-vela-") as folder:
        source, target = Path(folder) / f"{_STEM}.tflite", Path(folder) / "out"
        source.write_bytes(model)
        words += [str(source), "--accelerator-config", machine.name, "--output-dir", str(target)]
        words += ["--enable-debug-db", "--system-config", machine.system]
        words += ["--memory-mode", machine.memory_mode]
        words += ["--config", "Arm/vela.ini"]  # later files may change what it says
        if not machine.in_vela:
            own = Path(folder) / "own.ini"
            own.write_text(system_config(machine))
            words += ["--config", str(own)]
        if options.config:
            words += ["--config", str(Path(options.config).absolute())]
        if options.optimise:
            words += ["--optimise", options.optimise]
        if options.arena_cache_size is not None:
            words += ["--arena-cache-size", str(options.arena_cache_size)]
        try:
            outcome = subprocess.run(
                words, capture_output=True, timeout=_TIMEOUT_S, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired:
            raise ModelError(f"Vela did not finish within {_TIMEOUT_S} s") from None
        except OSError as error:
            raise UsageError(f"Vela cannot be started: {error.strerror}") from None
        result = target / f"{_STEM}_vela.tflite"
        if outcome.returncode or not result.is_file():
            raise _failure(outcome)
        debug = target / f"{_STEM}_debug.xml"
        return VelaOutput(
            result.read_bytes(),
            debug.read_text(errors="replace") if debug.is_file() else "",
            _stated_cycles(target),
            _reasons((outcome.stdout + b"\n" + outcome.stderr).decode(errors="replace")),
        )


def system_config(machine: EthosMachine) -> str:
    """Clock and memories in the words of Vela's configuration files."""
    far = "OffChipFlash" if machine.arena == "sram" else "Dram"  # an arena is written to
    lines = [f"[System_Config.{machine.system}]", f"core_clock={machine.clock_mhz * 1e6:g}"]
    lines += ["axi0_port=Sram", f"axi1_port={far}"]
    for name, port in (("Sram", machine.sram), (far, machine.external)):
        ports = ceil(port.bytes_per_cycle / machine.port_bytes)
        lines += [f"{name}_ports_used={ports}"] * (ports > 1)
        lines += [
            f"{name}_clock_scale={round(port.bytes_per_cycle / machine.port_bytes / ports, 6)}",
            f"{name}_burst_length={port.burst_bytes}",
            f"{name}_read_latency={port.read_latency_cycles:g}",
            f"{name}_write_latency={port.write_latency_cycles:g}",
        ]
    return "\n".join((*lines, *machine.vela_lines)) + "\n"


def _failure(outcome: subprocess.CompletedProcess[bytes]) -> ModelError:
    if outcome.returncode < 0:
        return ModelError(
            f"Vela crashed (signal {-outcome.returncode})",
            hint="cut the network in two to find the operator, or try another version of Vela",
        )
    text = (outcome.stderr or outcome.stdout).decode(errors="replace").strip()
    lines = [line for line in text.splitlines() if re.match(r"\s*(error|warning)", line, re.I)]
    said = safe_terminal(" ".join(lines or text.splitlines()[-1:])[:_SHOWN])
    return ModelError(f"Vela refused the network: {said or 'it gave no reason'}")


def _reasons(text: str) -> dict[str, str]:
    """What it warns of, and the constraint on the next line where there is one."""
    rows = re.finditer(
        r"operator: \w+, ofm: '(.*)'\s*\n\s*Reason: (.*)(?:\n(?!Warning)(.*))?", text
    )
    return {
        row[1]: safe_terminal(" - ".join(part.strip() for part in row.group(2, 3) if part)[:_SHOWN])
        for row in rows
    }


def _stated_cycles(folder: Path) -> float | None:
    """Of its summary; None where the column is missing."""
    for path in folder.glob("*_summary_*.csv"):
        lines = path.read_text(errors="replace").splitlines()
        if len(lines) >= 2:
            row = dict(zip(lines[0].split(","), lines[1].split(","), strict=False))
            try:
                return float(row["cycles_total"])
            except (KeyError, ValueError):
                return None
    return None
