"""Shapes: ranks, sizes, batches, and unused inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npuscope.graph.model import FRONT_END_NAME, Graph, Tensor
from npuscope.machine.model import Machine
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.queries import computed, shape_text, source
from npuscope.rulebook.registry import lint
from npuscope.shown import counted

_MAX_RANK = 4  # batch, height, width, channels: the axes of an NPU buffer
_MAX_SIZE = 65535  # dimensions are 16-bit fields of the registers
# Part of the note that our readers add to a graph.
_OPEN_BATCH = "the dynamic batch size was set to 1"


@lint(
    "LINT-RANK",
    "More than four axes",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Buffers of the NPU have at most four axes. Such ops run on the CPU at best; the "
    "vendor's compiler was also seen to crash (signo 11) or to report an unexpected input "
    "shape.",
    fixes=(fixes.MERGE_AXES,),
    until="4.0",
)
def tensors_have_many_axes(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A tensor has more than four axes."""
    yield from _by_tensor(graph, lambda t: len(t.shape) > _MAX_RANK, _MAX_RANK)


@lint(
    "LINT-DIMENSION",
    "An axis of 65536 elements or more",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Sizes are 16-bit numbers in the NPU's registers.",
    fixes=(fixes.FOLD_ROWS,),
)
def axes_are_long(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """An axis has 65536 elements or more."""
    yield from _by_tensor(graph, lambda t: max(t.shape, default=0) > _MAX_SIZE, _MAX_SIZE)


def _by_tensor(graph: Graph, wrong: Callable[[Tensor], bool], limit: int) -> Iterator[Hit]:
    """One hit for all affected tensors; the first is the evidence."""
    tensors = [tensor for tensor in computed(graph) if wrong(tensor)]
    if tensors:
        makers = graph.producers()
        names = [source(makers[t.name]) if t.name in makers else (t.name,) for t in tensors]
        ops = tuple(dict.fromkeys(name for row in names for name in row))
        yield Hit(ops, shape_text(tensors[0].shape), limit, {"tensors": len(tensors)})


@lint(
    "LINT-BATCH",
    "Batch other than 1",
    severity=Severity.WARNING,
    confidence=Confidence.DOCUMENTED,
    cause="The NPU runs one image at a time.",
    fixes=(fixes.BATCH_ONE,),
)
def batch_is_not_one(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """An input holds several images."""
    for name in graph.inputs:
        shape = graph.tensor(name).shape
        if len(shape) == _MAX_RANK and shape[0] != 1:
            yield Hit((name,), shape[0], 1)


@lint(
    "LINT-OPEN-BATCH",
    "The batch size is dynamic",
    severity=Severity.INFO,
    confidence=Confidence.REPORTED,
    cause="npuscope uses 1. The vendor's 2.x tools stop with 'NoneType object has no attribute "
    "get_value'.",
    fixes=(fixes.BATCH_ONE,),
    until="4.0",
)
def batch_is_open(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """The batch size is dynamic in the file; 1 was used."""
    notes = [note for note in graph.notes if _OPEN_BATCH in note]
    # Reported for ONNX only; a TFLite file also carries a fixed size.
    if notes and graph.numerics.value == "qdq":
        yield Hit(tuple(graph.inputs), counted(len(notes), "dynamic batch size"), 1)


@lint(
    "LINT-UNUSED-INPUT",
    "An input that no op reads",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="The application fills a buffer for nothing, or the wrong part of a network was "
    "exported.",
    fixes=(fixes.DROP_INPUT,),
)
def inputs_are_not_read(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """No op reads an input."""
    readers = graph.consumers()
    for name in graph.inputs:
        if not readers[name] and name not in graph.outputs:
            yield Hit((name,), "no reader", "at least one")


@lint(
    "LINT-STATE",
    "The network carries a state",
    severity=Severity.INFO,
    confidence=Confidence.REPORTED,
    cause="Outputs are meant to be fed back as inputs. Random states make comparisons with the "
    "reference look bad: feed the states of a real sequence.",
    fixes=(fixes.THREAD_STATES,),
)
def states_are_fed_back(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Outputs look like inputs: the network carries a state from one inference to the next."""
    shapes = [graph.tensor(name).shape for name in graph.outputs]
    states = []
    for name in graph.inputs:
        shape = graph.tensor(name).shape
        if shape in shapes:
            shapes.remove(shape)
            states.append(name)
    # Something must be left for the data itself, which exporters put first.
    if len(states) == len(graph.inputs):
        states = states[1:]
    if len(graph.inputs) > 1 and len(graph.outputs) > 1 and states:
        yield Hit(tuple(states), counted(len(states), "state input"), 0)


@lint(
    "LINT-OE-FILE",
    "A file that the vendor's front end wrote",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Files named *_OE_*.onnx were preprocessed once; compiled again they give other "
    "epochs, most of them on the CPU.",
    fixes=(fixes.ORIGINAL_FILE,),
)
def file_was_preprocessed(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """The file is the vendor front end's own output (`_OE_` in its name), not your model."""
    if FRONT_END_NAME in graph.name:
        yield Hit((graph.name,), "_OE_ in the file name", "the model you quantized")
