"""Time on the emulated board: processor cycles, and the NPU's clock beside them."""

from __future__ import annotations

from npuscope.board.emulated.cpu import Cpu
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
        self._asleep = 0
        self._npu_per_mcu = machine.clocks.npu_mhz / machine.clocks.mcu_mhz
        self._mcu_hz = machine.clocks.mcu_mhz * 1e6

    @property
    def cycles(self) -> int:
        return int(self._cpu.instructions * CYCLES_PER_INSTRUCTION) + self._asleep

    @property
    def npu_cycles(self) -> int:
        return int(self.cycles * self._npu_per_mcu)

    def at_npu(self, npu_cycle: int) -> int:
        """The processor's first cycle at which the NPU's clock shows this."""
        cycle = int(npu_cycle / self._npu_per_mcu)
        while int(cycle * self._npu_per_mcu) < npu_cycle:
            cycle += 1
        return cycle

    def skip_to(self, cycle: int) -> None:
        """Time passes without instructions."""
        self._asleep += max(0, cycle - self.cycles)

    def instructions_until(self, cycle: int) -> int:
        """Instructions that fit before a cycle, at least one."""
        return max(1, int((cycle - self.cycles) / CYCLES_PER_INSTRUCTION))

    def seconds_until(self, cycle: int) -> float:
        return max(0, cycle - self.cycles) / self._mcu_hz
