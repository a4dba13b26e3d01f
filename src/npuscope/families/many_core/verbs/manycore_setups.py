"""`npuscope manycore setups`: which set-up a network runs best in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, Mark, OptionGroup, Verb, flag, text, whole
from npuscope.options.rows import CORE_MACHINE, OUTPUT, SET, SHAPE
from npuscope.structs import replace
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.families.many_core.report.setups import SetupSearch

OBJECTIVES = ("latency", "throughput", "balanced")

# One option per row is easier to read than the formatter's layout.
# fmt: off
_SEARCH = OptionGroup("", (
    text("objective", "what is best: the shortest time, most inferences per second, or most of "
        "them with one in flight (throughput)", "", choices=OBJECTIVES, default="throughput"),
    whole("batch", "this size of a batch only (1 to 16 are tried)"),
    whole("cores", "this number of cores per copy only"),
    whole("copies", "this number of copies (as many as the card has room for)"),
    whole("in_flight", "inferences that wait in the queue of a copy (1 to 4 are tried)"),
    flag("mxfp6_matmul", "weights of products in blocks of 6-bit floats",
        flags=("--mxfp6-matmul", "-mxfp6-matmul")),
))
_TARGET = OptionGroup("machine", (
    *CORE_MACHINE,
    replace(SET, means="what-if: replace one value of the machine, e.g. cores.card_count=16",
        mark=Mark.NONE),
    replace(SHAPE, value="NAME=1,128", mark=Mark.NONE),
))
VERB = Verb(
    "the best set-up of a network: cores, copies, batch, inferences in flight",
    (Argument("model", "MODEL", "a network, float or int8: .onnx or .tflite"),),
    (_SEARCH, _TARGET, OUTPUT),
    text="npuscope.families.many_core.report.setups:setups_text",
    json="npuscope.families.many_core.report.setups:setups_json",
    busy="searching",
    reads=("model",),
)
# fmt: on


@checked(VERB)
def manycore_setups(
    model: str | Path,
    *,
    objective: str = "throughput",
    batch: int | None = None,
    cores: int | None = None,
    copies: int | None = None,
    in_flight: int | None = None,
    mxfp6_matmul: bool = False,
    machine: str = "cloudai100",
    machine_file: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> SetupSearch:
    """The best set-up of a network on a card of a many-core accelerator.

    In: an .onnx or .tflite model and what is best. Out: all set-ups, the best first, each with its
    time, its interval and what it waits for.

    >>> npuscope.manycore_setups("model.onnx", objective="latency").best.latency_ms
    """
    from npuscope.families.many_core.machine import load_core_machine
    from npuscope.families.many_core.report.setups import SetupSearch
    from npuscope.families.many_core.setups.network import timed_network
    from npuscope.families.many_core.setups.search import Objective, Wanted, search

    for name, value in (("batch", batch), ("cores", cores), ("copies", copies),
                        ("in-flight", in_flight)):  # fmt: skip
        if value is not None and value < 1:
            raise UsageError(f"expected at least 1, found {value}", where=f"--{name}")
    target = load_core_machine(machine, overrides=overrides, machine_file=machine_file)
    if (cores or 1) * (copies or 1) > target.cores.card_count:
        raise UsageError(
            f"{copies or 1} x {cores or 1} cores: a card has {target.cores.card_count}",
            where="--cores",
            hint="--set cores.card_count=16 for a card with more",
        )
    network = timed_network(Path(model), target, shapes)
    decisions = Wanted(batch, cores, copies, in_flight, mxfp6_matmul)
    ranking = search(network.work, target, Objective(objective), decisions)
    return SetupSearch(Path(model).name, target, ranking, network.notes)
