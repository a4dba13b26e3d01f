"""A language model on one or more devices: a prompt, then token by token."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from npuscope.errors import UsageError
from npuscope.families.many_core.compiler.kinds import size_bytes
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.setups.model import CardSetup, SetupPrediction, predict
from npuscope.families.many_core.setups.network import graph_without_weights
from npuscope.families.many_core.setups.work import RETAINED, network_work
from npuscope.graph.model import Graph
from npuscope.structs import replace

# Names that exporters of decoders give to open sizes.
BATCH, TOKENS, CONTEXT = "batch_size", "seq_len", "ctx_len"


class Step(Struct, frozen=True):
    """One run of the network: the prompt or a part of it, or one token."""

    tokens: int
    timing: SetupPrediction
    peers_ms: float  # between devices

    @property
    def ms(self) -> float:
        return self.timing.device_ms + self.timing.host_ms + self.peers_ms


class TokenSizes(Struct, frozen=True):
    """A prompt that is read in parts of `part` tokens, and the devices that do it."""

    prompt: int
    context: int
    part: int
    batch: int
    cores: int
    devices: int
    mxfp6: bool


class TextGeneration(Struct, frozen=True):
    sizes: TokenSizes
    prefill: Step
    decode: Step

    @property
    def first_token_ms(self) -> float:
        return -(-self.sizes.prompt // self.prefill.tokens) * self.prefill.ms

    @property
    def tokens_per_s(self) -> float:
        return 1e3 * self.sizes.batch / self.decode.ms


def generation(path: Path, machine: CoreMachine, sizes: TokenSizes) -> TextGeneration:
    """The same file with two sets of sizes, as its specialisations have them."""
    if sizes.prompt > sizes.context:
        raise UsageError(
            f"a prompt of {sizes.prompt} tokens: the context has {sizes.context}", where="--prompt"
        )
    part = min(sizes.part, sizes.prompt)
    return TextGeneration(sizes, *(_step(path, machine, sizes, tokens) for tokens in (part, 1)))


def _step(path: Path, machine: CoreMachine, sizes: TokenSizes, tokens: int) -> Step:
    """Sequences of a batch have states of their own, so that one of them is one inference."""
    symbols = {BATCH: 1, TOKENS: tokens, CONTEXT: sizes.context}
    graph = graph_without_weights(path, symbols=symbols)
    if sizes.cores > machine.cores.card_count:
        clocks = machine.clocks
        most = clocks.decode_mhz if tokens == 1 else clocks.prefill_mhz
        machine = replace(machine, clocks=replace(clocks, core_mhz=min(clocks.core_mhz, most)))
    setup = CardSetup(sizes.cores, batch=sizes.batch, mxfp6=sizes.mxfp6, devices=sizes.devices)
    timing = predict(network_work(graph, machine), machine, setup)
    return Step(tokens, timing, _peers_ms(graph, machine, sizes.batch, sizes.devices))


def _peers_ms(graph: Graph, machine: CoreMachine, batch: int, devices: int) -> float:
    """Twice per layer, after attention and after the rest, the devices add up their parts."""
    tables = [op for op in graph.ops if op.kind == "Gather" and graph.first_input(op).is_constant]
    if devices == 1 or not tables:
        return 0.0
    layers = sum(name.endswith(RETAINED) for name in graph.outputs) // 2
    # A part is as large as the tokens that the network begins with.
    tokens = graph.output_tensor(tables[0])
    size = batch * size_bytes(tokens, tokens.elements)
    seconds = machine.peer.latency_us / 1e6 + size / (machine.peer.gb_per_s * 1e9)
    return 1e3 * 2 * layers * (devices - 1) * seconds
