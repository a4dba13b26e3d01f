"""How numbers read in text reports. One place, so that every table agrees."""

from __future__ import annotations

DASH = "-"


def ms(value: float) -> str:
    """Milliseconds with about three figures that matter, down to a microsecond."""
    if value >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 10 else f"{value:.3f}"


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else DASH


def count(value: float) -> str:
    """A count with thousands separators."""
    return f"{round(value):,}"


def size(value: float) -> str:
    """Bytes in binary units, as memories are sold."""
    if value < 1024:
        return f"{round(value)} B"
    if value < 1024 * 1024:
        return f"{value / 1024:.1f} KiB"
    return f"{value / (1024 * 1024):.2f} MiB"


def rate(bytes_moved: float, milliseconds: float) -> str:
    """Decimal units, as buses are specified; a dash where no time passed."""
    if milliseconds <= 0:
        return DASH
    per_second = bytes_moved * 1000 / milliseconds
    if per_second >= 1e9:
        return f"{per_second / 1e9:.2f} GB/s"
    return f"{per_second / 1e6:.2f} MB/s"


def per(amount: float, cycles: float) -> str:
    """Operations a cycle."""
    return f"{amount / cycles:.1f}" if cycles > 0 else DASH


def millions(value: float) -> str:
    if value >= 1e9:
        return f"{value / 1e9:.2f} G"
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value / 1e3:.1f} k" if value >= 1e3 else str(round(value))


def bar(part: float, whole: float, width: int = 30) -> str:
    """A bar in plain ASCII: reports travel through mails, logs and Windows consoles."""
    return "#" * round(width * part / whole) if whole > 0 else ""


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
