"""Language models: states that stay, prompts in parts, several devices."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import npuscope
from npuscope.cli.main import main
from npuscope.errors import UsageError
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.setups.network import graph_without_weights
from npuscope.families.many_core.setups.work import network_work

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from language_nets import Decoder, decoder

sys.path.pop()  # names of benchmarks must not stand for those of tests

TWO_LAYERS = Decoder("two", 2, 64, 4, 2, 16, 128, 100)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "two.onnx"
    path.write_bytes(decoder(TWO_LAYERS))
    return path


def test_states_stay_in_the_devices_memory(model: Path) -> None:
    sizes = {"batch_size": 1, "seq_len": 1, "ctx_len": 32}
    work = network_work(graph_without_weights(model, symbols=sizes), load_core_machine())
    # Keys and values of two layers, 2 heads x 32 tokens x 16 half floats, read and written.
    assert work.state_bytes == 2 * 2 * 2 * (2 * 32 * 16 * 2)
    assert work.output_bytes == 4 * 100
    mask, turns, numbers = 32 * 4, 2 * 16 * 4, (1 + 1 + 2 * 3) * 8
    assert work.input_bytes == mask + turns + numbers


def test_a_long_prompt_is_read_in_parts(model: Path) -> None:
    whole = npuscope.manycore_tokens(model, prompt=64, context=128, prefill=64)
    parts = npuscope.manycore_tokens(model, prompt=64, context=128, prefill=16)
    assert whole.usual.prefill.tokens == 64 and parts.usual.prefill.tokens == 16
    assert parts.first_token_ms == pytest.approx(4 * parts.usual.prefill.ms)
    assert whole.first_token_ms < parts.first_token_ms
    assert whole.tokens_per_s == pytest.approx(1e3 / whole.usual.decode.ms)
    # 16 cores run a prompt at the lowest clock that was seen, 14 at the usual one.
    assert whole.slow.first_token_ms == whole.first_token_ms > whole.fast.first_token_ms
    fewer = npuscope.manycore_tokens(model, prompt=64, context=128, prefill=64, cores=14)
    assert fewer.slow.first_token_ms > fewer.first_token_ms == fewer.fast.first_token_ms


def test_devices_exchange_what_they_add_up(model: Path) -> None:
    alone, four = (npuscope.manycore_tokens(model, devices=count) for count in (1, 4))
    assert alone.usual.decode.peers_ms == 0
    # Twice in each of two layers, to three others.
    peer = load_core_machine().peer
    each = peer.latency_us / 1e3 + 64 * 2 / peer.gb_per_s / 1e6
    assert four.usual.decode.peers_ms == pytest.approx(2 * 2 * 3 * each)


def test_the_verb_says_both_rates(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manycore", "tokens", str(model), "--mxfp6-matmul"]) == 0
    first, name, *_ = capsys.readouterr().out.splitlines()
    assert " ms to the first token, " in first and first.endswith(" tokens/s")
    assert name == "model    two.onnx: MXFP6 weights"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"prompt": 300}, "a prompt of 300 tokens: the context has 256"),
        ({"cores": 17}, "expected 1 to 16, found 17"),
        ({"batch": 0}, "expected 1 to 16777216, found 0"),
    ],
)
def test_impossible_sizes_are_refused(model: Path, options: dict[str, int], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        npuscope.manycore_tokens(model, **options)
    assert caught.value.message == text
