"""A decoder as QEfficient exports it: its Ctx ops are read, timed, compiled and computed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import npuscope
from many_core.qefficient import KV_HEADS, PER_HEAD, VOCABULARY, export
from npuscope.families.many_core.specializations import read_programs
from npuscope.profiling.runtimes import onnxruntime_session

CONTEXT, TOKENS = 32, {"prefill": 8, "decode": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(export())
    sizes = [
        {"batch_size": "1", "seq_len": str(tokens), "ctx_len": str(CONTEXT)}
        for tokens in TOKENS.values()
    ]
    (tmp_path / "sizes.json").write_text(json.dumps({"specializations": sizes}))
    npuscope.manycore_compile(
        tmp_path / "model.onnx",
        tmp_path / "qpc",
        cores=2,
        network_specialization_config=tmp_path / "sizes.json",
    )
    return tmp_path


@pytest.mark.parametrize("number", range(len(TOKENS)))
def test_it_computes_as_onnxruntime(folder: Path, number: int) -> None:
    tokens, random = list(TOKENS.values())[number], np.random.default_rng(number)
    session = onnxruntime_session((folder / "model.onnx").read_bytes())
    values: dict[str, np.ndarray] = {
        "input_ids": random.integers(0, VOCABULARY, (1, tokens)),
        "position_ids": 5 + np.arange(tokens)[None],
    }
    for entry in session.get_inputs()[2:]:
        shape = (1, KV_HEADS, CONTEXT, PER_HEAD)
        values[entry.name] = random.standard_normal(shape).astype(np.float32)
    files = [folder / f"{entry.name}.raw" for entry in session.get_inputs()]
    for file, entry in zip(files, session.get_inputs(), strict=True):
        values[entry.name].tofile(file)
    npuscope.manycore_run(
        folder / "qpc", specialization=str(number), input_file=files, write_output_dir=folder
    )
    for entry, want in zip(session.get_outputs(), session.run(None, values), strict=True):
        result = np.fromfile(folder / f"{entry.name}-activation-0-inf-0.bin", np.float32)
        assert np.abs(result - want.ravel()).max() <= 0.005 * np.abs(want).max(), entry.name


def test_its_ops_are_called_as_in_published_profiles(folder: Path) -> None:
    for program in read_programs((folder / "qpc" / "programqpc.bin").read_bytes()):
        kinds = {op.info.kind for part in program.devices for op in part.all_ops()}
        assert {"aicscatternd", "aicgathernd", "aicsoftmax"} <= kinds


def test_tokens_are_timed_and_states_stay(folder: Path) -> None:
    answer = npuscope.manycore_tokens(folder / "model.onnx", prompt=8, context=CONTEXT)
    longer = npuscope.manycore_tokens(folder / "model.onnx", prompt=8, context=4096)
    assert answer.tokens_per_s > 0 and longer.tokens_per_s < answer.tokens_per_s
