"""How far times are from published ones: `benchmarks/ethos_u_timing.py` prints these figures.

Ratios are published time over estimate, of networks predicted with constants that were chosen
without them. `held` counts the cells that the range of the other networks holds."""

from __future__ import annotations

from msgspec import Struct

from npuscope.families.ethos_u.machine import EthosMachine


class KnownError(Struct, frozen=True):
    low: float
    high: float
    cells: int
    held: int
    judge: str

    def interval(self, total_ms: float) -> tuple[float, float]:
        return self.low * total_ms, self.high * total_ms

    @property
    def words(self) -> str:
        return (
            f"{100 * self.low - 100:+.0f}% to {100 * self.high - 100:+.0f}% on {self.judge}, "
            f"expected to hold for {100 * self.held / self.cells:.0f} % of new networks"
        )


_PLATFORM = {
    "u55": KnownError(0.89, 1.18, 20, 14, "Arm's virtual platform"),
    "u65": KnownError(0.79, 1.07, 10, 7, "Arm's virtual platform"),
    "u85": KnownError(0.87, 1.31, 30, 21, "Arm's virtual platform"),
}
# Nothing was chosen with it: networks with the layers of those that Renesas publishes times of.
_BOARD = KnownError(0.82, 2.56, 8, 5, "one board (RA8P1)")


def known_error(machine: EthosMachine) -> KnownError:
    return _BOARD if machine.board else _PLATFORM[machine.product]
