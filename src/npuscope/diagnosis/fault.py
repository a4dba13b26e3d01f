"""A fault as what it does to the bytes on their way: into the NPU, through it, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from npuscope.diagnosis.sights import Array, Bytes
from npuscope.program.model import Buffer, Epoch, Program
from npuscope.sim.memory import Memory, from_stored, to_stored


class Feed(Struct, frozen=True):
    """An input on its way to the NPU. `values` are in logical order (N, H, W, C), `before` is the
    input of the run before, `left` what that run left in the input's memory, in its order; None
    where nobody knows."""

    buffer: Buffer
    values: Array
    before: Array | None = None
    left: Array | None = None

    def stored(self, values: Array | None = None) -> Array:
        """Values in the order of memory."""
        return to_stored(self.buffer, self.values if values is None else values)

    def logical(self, stored: Array) -> Array:
        return from_stored(self.buffer, stored)


class Drain(Struct, frozen=True):
    """An output on its way to the program, in the order of memory; `before` is what the run before
    gave, None where nobody knows; `others` are all outputs of the run."""

    buffer: Buffer
    values: Array
    before: Array | None
    others: Mapping[str, Array]


class Blocked(Struct, frozen=True):
    """Addresses that the NPU reads as zero and cannot write. `open_to_cpu`: the CPU still can."""

    start: int
    end: int
    open_to_cpu: bool


Supply = Callable[[Feed], Array | None]  # values in the order of memory; None: not to be told
Drained = Callable[[Drain], Array | None]
ImageChange = Callable[[str, Bytes], Bytes]
Step = Callable[[Epoch, Memory], None]


class BoardFault(Struct, frozen=True):
    """What differs from a right board; parts that are None do not.

    `supply` is what the application puts into the input buffer, `fetch` what the NPU finds there
    instead. `image` changes weights in memory, `image_read` only what the NPU reads of them.
    `step` runs behind each epoch and changes what that one wrote. `settle` changes outputs in RAM
    after the run, `read` only what the program makes of them. `decode` is how the program makes
    numbers of them.
    """

    words: str = ""
    supply: Supply | None = None
    fetch: Supply | None = None
    image: ImageChange | None = None
    image_read: ImageChange | None = None
    step: Step | None = None
    blocked: tuple[Blocked, ...] = ()
    settle: Drained | None = None
    read: Drained | None = None
    decode: Callable[[Buffer, Array], Array] | None = None
    program: Program | None = None
    unmapped: bool = False  # flash as a whole reads as one word
    untouched: tuple[str, ...] = ()  # "inputs" or "outputs" in which a pattern would stay
    parameter: float | None = None  # where it lies on its cause's axis, for a closer search
    variant: str = ""  # what is alike along that axis
    deadens: bool = False  # it leaves a constant inside, as a wrong input may do as well
    rare: bool = False  # one of many places that no public case shows: tried where time allows

    @property
    def only_reads(self) -> bool:
        """Is all right but what the program makes of the outputs?"""
        parts = (self.supply, self.fetch, self.image, self.image_read, self.step, self.settle)
        inner = any(parts) or self.blocked or self.program is not None or self.unmapped
        return not inner and (self.read is not None or self.decode is not None)


RIGHT = BoardFault("nothing is wrong")


def both(first: BoardFault, second: BoardFault) -> BoardFault:
    """Two faults at once: the first one acts first, and they lie on its axis."""

    def supplies(a: Supply | None, b: Supply | None) -> Supply | None:
        if a is None or b is None:
            return a or b

        def chained(feed: Feed) -> Array | None:
            stored = a(feed)
            if stored is None:
                return None
            return b(Feed(feed.buffer, feed.logical(stored), feed.before, feed.left))

        return chained

    def images(a: ImageChange | None, b: ImageChange | None) -> ImageChange | None:
        if a is None or b is None:
            return a or b
        return lambda pool, image: b(pool, a(pool, image))

    def drains(a: Drained | None, b: Drained | None) -> Drained | None:
        if a is None or b is None:
            return a or b

        def chained(drain: Drain) -> Array | None:
            values = a(drain)
            if values is None:
                return None
            return b(Drain(drain.buffer, values, drain.before, drain.others))

        return chained

    def steps(a: Step | None, b: Step | None) -> Step | None:
        if a is None or b is None:
            return a or b

        def chained(epoch: Epoch, memory: Memory) -> None:
            a(epoch, memory)
            b(epoch, memory)

        return chained

    return BoardFault(
        words=f"{first.words}; {second.words}",
        supply=supplies(first.supply, second.supply),
        fetch=supplies(first.fetch, second.fetch),
        image=images(first.image, second.image),
        image_read=images(first.image_read, second.image_read),
        step=steps(first.step, second.step),
        blocked=(*first.blocked, *second.blocked),
        settle=drains(first.settle, second.settle),
        read=drains(first.read, second.read),
        decode=second.decode or first.decode,
        program=first.program or second.program,
        unmapped=first.unmapped or second.unmapped,
        untouched=(*first.untouched, *second.untouched),
        parameter=first.parameter,
        variant=first.variant,
        deadens=first.deadens or second.deadens,
    )
