"""Boards for the tests of triage: a frame, what a board gives for it, and what triage says."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import npuscope
from npuscope.building import build
from npuscope.diagnosis.result import Triage
from npuscope.sim.run import execute
from npuscope.structs import replace


def picture(model: Path, seed: int) -> np.ndarray:
    program = build(model, {}).program
    buffer = program.buffer_map()[program.inputs[0]]
    return np.random.default_rng(seed).integers(-128, 128, buffer.shape).astype(np.int8)


def board_output(model: Path, values: np.ndarray, **changes: object) -> np.ndarray:
    """What a board gives; `constants` replaces its weights."""
    program = build(model, {}).program
    if changes:
        program = replace(program, **changes)
    return execute(program, {program.inputs[0]: values}).outputs[program.outputs[0]]


def run(model: Path, folder: Path, frame: np.ndarray, output: np.ndarray, **more: object) -> Triage:
    np.save(folder / "in.npy", frame)
    (folder / "out.raw").write_bytes(output.tobytes())
    return npuscope.triage(
        model,
        inputs=[folder / "in.npy"],
        outputs=[folder / "out.raw"],
        generation="4.0",
        **more,  # type: ignore[arg-type]
    )


def causes(result: Triage) -> set[str]:
    return {one.id for one in result.classes[0].suspects}
