"""Faults on a real pseudo terminal: how conversations with a virtual board end.

One byte of every conversation is dropped, doubled or changed, or the line stalls or breaks there;
every byte of the conversation has the same chance. Time-outs are a hundredth of the usual ones.
The tests do the same on a clock of their own; this run shows that a real terminal behaves so.

    python benchmarks/link_faults.py [--cases 1000] [--seed 0]
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass

import numpy as np

from npuscope.boards.client_exchange import Timeouts
from npuscope.boards.device import CounterOption, DeviceInfo, Inference, Request
from npuscope.boards.link import BoardLink, FileLink
from npuscope.boards.listeners import PtyListener
from npuscope.boards.remote import RemoteBoard
from npuscope.boards.server import VirtualBoard
from npuscope.boards.server_run import ServerTiming
from npuscope.boards.simulated import SimulatedBoard
from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.errors import DeviceError, UsageError
from npuscope.profiling.measure import random_inputs
from npuscope.structs import replace

SCALE = 0.01
KINDS = ("drop", "double", "change", "stall", "break")
LIMIT_S = 60 * SCALE * 10  # of one conversation, all attempts


@dataclass
class Fault:
    """At one byte of what was sent and received since the beginning."""

    kind: str
    position: int
    value: int
    stall_s: float


class FaultyLink:
    """A link that goes wrong once. `moved` counts bytes of both ways, over all openings."""

    def __init__(self, link: BoardLink, fault: Fault | None, moved: list[int]) -> None:
        self._link, self._fault, self._moved = link, fault, moved
        self._left = b""

    @property
    def name(self) -> str:
        return self._link.name

    def now(self) -> float:
        return self._link.now()

    def read(self, n: int, timeout_s: float) -> bytes:
        """Never more than n bytes: a doubled one is left for the next call."""
        if not self._left:
            data = self._link.read(n, timeout_s)
            if not data:
                return data
            self._left = self._touched(data)
        data, self._left = self._left[:n], self._left[n:]
        return data or self.read(n, timeout_s)

    def write(self, data: bytes) -> None:
        self._link.write(self._touched(data))

    def flush(self) -> None:
        self._left = b""
        self._link.flush()

    def close(self) -> None:
        self._link.close()

    def _touched(self, data: bytes) -> bytes:
        start = self._moved[0]
        self._moved[0] += len(data)
        fault = self._fault
        if fault is None or not start <= fault.position < start + len(data):
            return data
        at = fault.position - start
        before, byte, after = data[:at], data[at], data[at + 1 :]
        match fault.kind:
            case "drop":
                return before + after
            case "double":
                return before + bytes((byte, byte)) + after
            case "change":
                return before + bytes((byte ^ fault.value,)) + after
            case "stall":
                time.sleep(fault.stall_s)
                return data
        raise DeviceError("the cable is out", where=self.name)


def conversation(path: str, request: Request, fault: Fault | None) -> tuple[Ended, int]:
    moved = [0]
    board = RemoteBoard(lambda: FaultyLink(FileLink(path), fault, moved), Timeouts().scaled(SCALE))
    try:
        return (board.info(), board.run(request)), moved[0]
    finally:
        board.close()


Ended = tuple[DeviceInfo, Inference]


def is_same(one: Ended, two: Ended) -> bool:
    plain = [replace(inference, outputs=()) for _, inference in (one, two)]
    pairs = zip(one[1].outputs, two[1].outputs, strict=True)
    return (
        one[0] == two[0] and plain[0] == plain[1] and all(np.array_equal(*pair) for pair in pairs)
    )


def serve() -> tuple[PtyListener, SimulatedBoard]:
    made = build(demo_graph(), {"epoch_controller": False})
    device, plain = SimulatedBoard(made.program, made.machine), ServerTiming()
    gaps = (plain.silence, plain.packet_gap, plain.message_gap)
    board = VirtualBoard(
        device, memory=device, timing=ServerTiming(plain.idle, *(gap * SCALE for gap in gaps))
    )
    listener = PtyListener()
    threading.Thread(target=listener.serve, args=(board,), daemon=True).start()
    return listener, device


def drawn(draw: random.Random, length: int) -> Fault:
    stall_s = SCALE * 10 ** draw.uniform(-2, 1)
    kind = draw.choice(KINDS)
    return Fault(kind, draw.randrange(length), draw.randrange(1, 256), stall_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    listener, device = serve()
    network = device.info().networks[0]
    request = Request(network.name, random_inputs(network), True, CounterOption.EPOCH_LEN)
    wanted, length = conversation(listener.path, request, None)
    counts: Counter[tuple[str, str]] = Counter()
    slowest, start = 0.0, time.perf_counter()
    for case in range(args.cases):
        fault = drawn(random.Random(f"{args.seed}:{case}"), length)
        began = time.perf_counter()
        try:
            got, _ = conversation(listener.path, request, fault)
            ended = "right" if is_same(got, wanted) else "unseen"
        except DeviceError:
            ended = "device error"
        except UsageError:  # a network described wrongly: our inputs do not fit it
            ended = "unseen"
        slowest = max(slowest, time.perf_counter() - began)
        counts[fault.kind, ended] += 1
    listener.close()
    print(
        f"{length} bytes per conversation, {args.cases} cases "
        f"in {time.perf_counter() - start:.1f} s"
    )
    print(f"slowest case {slowest:.2f} s, limit {LIMIT_S:.0f} s")
    for (kind, ended), n in sorted(counts.items()):
        print(f"{kind:<8}{ended:<14}{n:>6}")


if __name__ == "__main__":
    main()
