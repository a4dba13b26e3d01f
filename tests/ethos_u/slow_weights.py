"""Slices of random bits without runs of zeros, and their weights, read one bit after the other."""

from __future__ import annotations

import numpy as np

_CHUNK = 12


class _Reader:
    def __init__(self, bits: list[int]) -> None:
        self.bits, self.place = bits, 0

    def take(self, width: int) -> int:
        value = sum(bit << at for at, bit in enumerate(self.bits[self.place :][:width]))
        self.place += width
        return value

    def put(self, value: int, width: int) -> None:
        """Over the bits that are there."""
        self.bits[self.place : self.place + width] = [value >> at & 1 for at in range(width)]
        self.place += width


def random_slices(seed: int, slices: int = 12) -> tuple[bytes, list[int]]:
    """Widths, palettes and lengths change from slice to slice; the last quotient may be open."""
    rng = np.random.default_rng(seed)
    reader = _Reader((rng.random(40_000) < 0.4).astype(int).tolist())
    palette: list[int] = []
    offset, weights = 0, []
    for number in range(slices):
        count, width, truncated = (
            int(rng.integers(1, 200)),
            int(rng.integers(0, 6)),
            number % 4 == 3,
        )
        is_new = number == 0 or rng.random() < 0.3
        for value, size in ((6, 3), (count - 1, 15), (width, 3), (truncated, 1), (is_new, 1)):
            reader.put(int(value), size)
        if is_new:
            offset, size = int(rng.integers(0, 32)), int(rng.integers(2, 33)) * (seed % 2)
            palette = rng.integers(0, 512, size).tolist()
            for value, bits in ((offset, 5), (max(size, 1) - 1, 5), (7, 3)):
                reader.put(value, bits)
            for code in palette:
                reader.put(code, 9)
        for index in _slice(reader, count, width, truncated):
            code = palette[index] if index < len(palette) else index - len(palette) + offset
            weights.append(-(code >> 1) if code & 1 else code >> 1)
    bits = [*reader.bits[: reader.place], 1, 1, 1]
    return np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes() + b"\xff", weights


def _slice(reader: _Reader, count: int, width: int, truncated: bool) -> list[int]:
    numbers: list[int] = []
    waiting: list[int] = []
    total = quotient = 0
    while total < count:
        first = [reader.take(1) for _ in range(_CHUNK)]
        chunk = []
        for bit in first:
            step = 1 + reader.take(1) if bit else 0
            quotient += step
            if step < 2 or truncated:
                chunk.append(quotient)
                quotient = 0
        numbers += [(one << width) + reader.take(width) for one in waiting]
        total, waiting = total + len(chunk), chunk
    last = waiting[: count - len(numbers)]
    return numbers + [(one << width) + reader.take(width) for one in last]
