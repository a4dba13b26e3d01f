"""Law 3 on groups built by hand: T = L0 + sum of max(L, S) + S_last + start, term by term.

The machine's constants are round numbers here, so that every expectation is plain arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from npuscope.compiler.place import program_pools
from npuscope.machine.load import load_machine
from npuscope.machine.model import Path, Timing
from npuscope.program.model import Buffer, Group, Program
from npuscope.program.units import Arith, ArithOp, Convacc, Link, Ref, Streng
from npuscope.sim.banks import Banks
from npuscope.sim.counters import Bound
from npuscope.sim.timing import group_span
from sim.bench import link

START, MOVE = 1000.0, 500.0
# NPU cycles a byte: one for npuRAM, two for cpuRAM2, four for hyperRAM, three for the flash.
_ROADS = {"nic": 1000, "noc": 500, "xspi1": 250, "xspi2": 1000 / 3}


def round_machine():
    timing = Timing(
        epoch_start_cycles=START,
        move_start_cycles=MOVE,
        flush_lines=2.0,
        flush_strided_cycles=70.0,
        strided_read_cycles=1.25,
        strided_write_cycles=1.5,
        vector_cycles=3.0,
        second_vector_cycles=0.5,
        vector_frame_cycles=40.0,
        broadcast_cycles=30.0,
        elementwise_cycles=1.0,
        depthwise_cycles=1.1,
    )
    machine = load_machine(generation="4.0")
    # One byte a clock, each road at a clock of its own: the machine's clock fields carry them.
    clocks = replace(
        machine.clocks, npu_mhz=1000, nic_mhz=_ROADS["nic"] / 0.125, noc_mhz=_ROADS["noc"]
    )
    return replace(machine, timing=timing, clocks=clocks, paths=machine.paths)


