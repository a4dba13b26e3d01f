"""Time on the emulated board: processor cycles, and the NPU's clock beside them.

Nothing here knows the host's time: cycles pass by executed instructions and by sleep.
"""

from __future__ import annotations

import math

from npuscope.boards.emulated.cpu import Cpu
from npuscope.machine.model import Machine

# Cycles of one instruction on average. Not measured: most instructions of a Cortex-M take one
# cycle, a load two and a taken branch two or three, and code here is built for the M33 while the
# real core is an M55. Processor time is right within about 40 %; the NPU's own time does not
# depend on it.
CYCLES_PER_INSTRUCTION = 1.25


class Clock:
    """Executed instructions and time asleep, since power-up."""

    def __init__(self, cpu: Cpu, machine: Machine) -> None:
        self._cpu = cpu
        self._mcu_hz = round(machine.clocks.mcu_mhz * 1e6)
        self._npu_hz = round(machine.clocks.npu_mhz * 1e6)
        # Both clocks are at a whole cycle once in so many cycles of the processor.
        self._period = self._mcu_hz // math.gcd(self._mcu_hz, self._npu_hz)
        self._passed = 0  # cycles up to the end of the last sleep
        self._instructions = 0  # executed by then

    @property
    def cycles(self) -> int:
        executed = self._cpu.instructions - self._instructions
        return int(executed * CYCLES_PER_INSTRUCTION) + self._passed

    @property
    def npu_cycles(self) -> int:
        return self.cycles * self._npu_hz // self._mcu_hz

    @property
    def seconds(self) -> float:
        return self.cycles / self._mcu_hz

    def at_npu(self, npu_cycle: int) -> int:
        """The processor's first cycle at which the NPU's clock shows this."""
        return -(-npu_cycle * self._mcu_hz // self._npu_hz)

    def after(self, seconds: float) -> int:
        """The first cycle at which so much time has passed from now."""
        return self.cycles + math.ceil(seconds * self._mcu_hz)

    def skip_to(self, cycle: int) -> None:
        """Time passes without instructions; the next one begins with a whole cycle."""
        self._passed = max(cycle, self.cycles)
        self._instructions = self._cpu.instructions

    def align(self) -> None:
        """Go on to where the NPU's clock is at a whole cycle too: what follows then counts the
        same, however long the wait before it was."""
        self.skip_to(-(-self.cycles // self._period) * self._period)

    def instructions_until(self, cycle: int) -> int:
        """Instructions that fit before a cycle, at least one."""
        return max(1, int((cycle - self.cycles) / CYCLES_PER_INSTRUCTION))
