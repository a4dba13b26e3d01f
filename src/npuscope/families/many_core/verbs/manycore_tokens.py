"""`npuscope manycore tokens`: how fast a language model answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, Mark, OptionGroup, Verb, flag, whole
from npuscope.options.rows import CORE_MACHINE, OUTPUT, SET
from npuscope.structs import replace
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.families.many_core.report.tokens import TokenRates

# One option per row is easier to read than the formatter's layout.
# fmt: off
_TEXT = OptionGroup("", (
    whole("prompt", "tokens of the prompt (128)", default=128),
    whole("context", "tokens that the states have room for (256)", default=256),
    whole("prefill", "tokens of the prompt in one run (128)", default=128),
    whole("batch", "sequences side by side (1)", default=1),
    whole("cores", "cores of a device (16)", default=16),
    whole("devices", "devices that share the network (1)", default=1),
    flag("mxfp6_matmul", "weights of products in blocks of 6-bit floats",
        flags=("--mxfp6-matmul", "-mxfp6-matmul")),
))
_TARGET = OptionGroup("machine", (
    *CORE_MACHINE,
    replace(SET, means="what-if: replace one value of the machine, e.g. clocks.core_mhz=1000",
        mark=Mark.NONE),
))
VERB = Verb(
    "a language model: time to the first token, tokens per second",
    (Argument("model", "MODEL",
        "a decoder (.onnx) with sizes batch_size, seq_len and ctx_len; weights may be absent"),),
    (_TEXT, _TARGET, OUTPUT),
    text="npuscope.families.many_core.report.tokens:tokens_text",
    json="npuscope.families.many_core.report.tokens:tokens_json",
    busy="timing",
    reads=("model",),
)
# fmt: on


@checked(VERB)
def manycore_tokens(
    model: str | Path,
    *,
    prompt: int = 128,
    context: int = 256,
    prefill: int = 128,
    batch: int = 1,
    cores: int = 16,
    devices: int = 1,
    mxfp6_matmul: bool = False,
    machine: str = "cloudai100",
    machine_file: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> TokenRates:
    """A language model on a many-core accelerator: its prompt, then token by token.

    In: a decoder whose keys and values of earlier tokens are states (inputs with an output
    NAME_RetainedState). Out: time to the first token and tokens per second.

    >>> npuscope.manycore_tokens("decoder.onnx", mxfp6_matmul=True).tokens_per_s
    """
    from npuscope.families.many_core.compiler.options import MOST_DEVICES
    from npuscope.families.many_core.machine import load_core_machine
    from npuscope.families.many_core.report.tokens import TokenRates
    from npuscope.families.many_core.setups.language import TokenSizes, generation

    target = load_core_machine(machine, overrides=overrides, machine_file=machine_file)
    limits = {"cores": target.cores.count, "devices": MOST_DEVICES}
    sizes = {"prompt": prompt, "context": context, "prefill": prefill, "batch": batch,
             "cores": cores, "devices": devices}  # fmt: skip
    for name, value in sizes.items():
        most = limits.get(name, 1 << 24)
        if not 1 <= value <= most:
            raise UsageError(f"expected 1 to {most}, found {value}", where=f"--{name}")
    token_sizes = TokenSizes(prompt, context, prefill, batch, cores, devices, mxfp6_matmul)
    # The clock depends on what the whole card does: 747 MHz were seen in a prefill.
    clocks, path = target.clocks, Path(model)
    slow = replace(clocks, core_mhz=min(*clocks.load_mhz, clocks.core_mhz))
    fast = replace(clocks, prefill_mhz=clocks.core_mhz, decode_mhz=clocks.core_mhz)
    usual, *bounds = (
        generation(path, replace(target, clocks=one), token_sizes) for one in (clocks, slow, fast)
    )
    return TokenRates(path.name, target, usual, *bounds)
