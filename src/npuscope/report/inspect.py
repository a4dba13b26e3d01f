"""What a file or folder is, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from npuscope.identify.table import Identity
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.loadable.compare import Difference
    from npuscope.loadable.fitting import Fitting
    from npuscope.loadable.image import Image

SCHEMA = "npuscope/inspect/1"
_MOST_LINES = 20


class Inspection(ShownRecord, frozen=True):
    """What a file is; of a runtime-loadable image also itself, and what was asked about it."""

    identity: Identity
    image: Image | None = None
    differences: tuple[Difference, ...] | None = None
    fitting: Fitting | None = None

    @property
    def kind(self) -> str:
        return self.identity.kind

    @property
    def summary(self) -> dict[str, Any]:
        return self.identity.summary

    def told(self) -> str:
        return f"{self.kind} {self.identity.version}".rstrip()

    def table(self) -> Rows:
        """The counts of the file; all its numbers are in `summary["values"]`."""
        return [{"what": k, "value": v} for k, v in self.summary.items() if k != "values"]


def inspection_text(
    inspection: Inspection, *, source: str, compare: str = "", every: bool = False
) -> str:
    """Of an image by itself, or the answer to the question that the options ask about it."""
    if inspection.image is None:
        identity = inspection.identity
        # `values` holds every number of the file, which is for --json only.
        rows = {
            k: v
            for k, v in identity.summary.items()
            if k != "values" and v not in (None, "", [], {})
        }
        width = max((len(key) for key in rows), default=0)
        # What it is, its version, and the count that matters most.
        name = identity.title or identity.kind
        version = f", version {safe_terminal(identity.version)}" if identity.version else ""
        lines = [f"{safe_terminal(source)}: {name}{version}{_main_count(identity)}"]
        for key, value in rows.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                lines += ["", *_table(value)]
            elif isinstance(value, list) and any(isinstance(v, str) and " " in v for v in value):
                lines += _sentences(key, value, every)
            else:
                lines.append(f"  {key.replace('_', ' '):<{width}}  {safe_terminal(_shown(value))}")
        return "\n".join([*lines, *_sentences("not read", list(identity.ignored), every)])
    from npuscope.report.loadable import comparison_text, fitting_text, image_text

    texts: list[str] = []
    if inspection.fitting is not None:
        texts.append(fitting_text(source, inspection.fitting))
    if inspection.differences is not None:
        texts.append(comparison_text(source, compare, inspection.differences))
    return "\n\n".join(texts or [image_text(source, inspection.image)])


def inspection_json(inspection: Inspection, *, compare: str = "") -> dict[str, Any]:
    result = {
        "schema": SCHEMA,
        "kind": inspection.kind,
        "version": inspection.identity.version,
        "summary": inspection.summary,
        "ignored": list(inspection.identity.ignored),
    }
    if inspection.fitting is not None:
        result["firmware"] = {
            "name": inspection.fitting.firmware,
            "loads": inspection.fitting.loads,
            "modes": {"xip": inspection.fitting.xip_loads, "copy": inspection.fitting.copy_loads},
            "checks": [
                {"mode": mode, **asdict(check)}
                for mode in ("common", "xip", "copy")
                for check in getattr(inspection.fitting, mode)
            ],
        }
    if inspection.differences is not None:
        rows = [asdict(difference) for difference in inspection.differences]
        result["compare"] = {"other": compare, "same": not rows, "differences": rows}
    return result


def _main_count(identity: Identity) -> str:
    counts = identity.summary
    if identity.kind == "folder":
        files = counted(counts["files"], "file")
        if not counts["networks"] and counts["kinds"]:
            kinds = (f"{number} {kind}" for kind, number in counts["kinds"].items())
            return f" of {files}: {safe_terminal(', '.join(kinds))}"
        networks = safe_terminal(", ".join(counts["networks"])) or "none"
        return f" of {files}, networks: {networks}; missing: {len(counts['missing'])}"
    if counts.get("epochs"):
        return f", {counted(counts['epochs'], 'epoch')}, {counts.get('sw_epochs', 0)} in software"
    return f", {counted(counts['pools'], 'pool')}" if counts.get("pools") else ""


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Records with the same keys: a column each, numbers to the right."""
    cells = [[key.replace("_", " ") for key in rows[0]]]
    cells += [[safe_terminal(_shown(value)) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [isinstance(value, int | float) for value in rows[0].values()]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]


def _sentences(key: str, lines: list[str], every: bool) -> list[str]:
    if not lines:
        return []
    lines_shown = lines if every else lines[:_MOST_LINES]
    rest = len(lines) - len(lines_shown)
    more = [f"    and {rest} more (-v shows them)"] if rest else []
    return [f"  {key}", *(f"    {safe_terminal(str(line))}" for line in lines_shown), *more]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{entry} {key}" for key, entry in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
