"""Generate and analyze reports, of 2.x and of 3.0 and later, as files or inside logs: one rule for
each kind of line."""

from __future__ import annotations

import re
from pathlib import Path

from npuscope.errors import FileError
from npuscope.program.generate_report.lines import (
    LineRule,
    ReportDraft,
    ReportLine,
    number,
    read_into,
    read_lines,
    unread,
    whole,
)
from npuscope.program.generate_report.model import (
    Amount,
    Counts,
    EpochLine,
    GenerateReport,
    LayerLine,
    PoolLine,
    RangeLine,
    SectionLine,
    SummaryLine,
    ToolLine,
    TotalLine,
    Use,
)
from npuscope.structs import replace

# --- The lines of a generate or analyze report: one rule per kind of line ---

_HEX = r"0x[0-9A-Fa-f]{1,16}"
_AMOUNT = r"(\d{1,15}(?:\.\d{1,6})?) +([kMG]?B)"
_USE = _AMOUNT + r" +\( *(\d{1,9}(?:\.\d{1,6})?) % used\)"
_PLACE = re.compile(rf"\[({_HEX}) - ({_HEX})\]: *", re.ASCII)
_POOL = re.compile(
    rf"{_AMOUNT} / *{_AMOUNT} +\( *(\d{{1,9}}(?:\.\d{{1,6}})?) % used\)"
    rf" -- weights: *{_USE} +activations: *{_USE}",
    re.ASCII,
)
_TOTAL = re.compile(
    rf"\s*Total: *{_AMOUNT} +-- weights: *{_AMOUNT} +activations: *{_AMOUNT}", re.ASCII
)
_PAIR = re.compile(rf"({_HEX})-({_HEX})", re.ASCII)
_TOOL = re.compile(r"\s*([A-Za-z][\w. -]{1,40}?) v(\d+\.\d+\.\d+\S*)(?: (\S+))?\s*$", re.ASCII)
_TITLE = re.compile(r'\s*(\S[^"]{0,100}) - "([^"]{0,200})"( target)?\s*$')
_EPOCH = re.compile(r"\s*epoch +(\d{1,9}) +(\S{1,12})(?=\s|$)", re.ASCII)
_EPOCH_CELL = re.compile(r"epochs?[ _]+(\d{1,9})(?: +-> +(\d{1,9}))?$", re.ASCII)
_COUNTS = (
    ("total", re.compile(r"\s*Total number of epochs:? +(\d{1,9})")),
    ("software", re.compile(r"\s*>> pure software \(SW\) epochs +(\d{1,9})")),
    ("hybrid", re.compile(r"\s*>> hybrid epochs \([^()]{0,80}\) +(\d{1,9})")),
    ("hardware", re.compile(r"\s*>> pure hardware \(HW or EC\) epochs +(\d{1,9})")),
)
_SOFTWARE = re.compile(r"\s*of which (\d{1,9}) implemented in software")
_BLOBS = re.compile(r"\s*\(implemented in (\d{1,9}) epoch controller")
_LONGEST_NAME = 200
_MOST_CELLS = 4  # params/size, macc, one input, and room for a name with a blank
_MOST_INPUTS = 1000
_MODEL_TOTAL = re.compile(r"(\w+)=([\d,]+|--)")


def tool(text: str, draft: ReportDraft) -> ToolLine | None:
    match = _TOOL.match(text)
    return ToolLine(match[1].strip(), match[2], match[3] or "") if match else None


def title(text: str, draft: ReportDraft) -> str | None:
    match = _TITLE.match(text)
    return text.strip() if match else None


def model_name(text: str, draft: ReportDraft) -> str | None:
    word, dash, name = text.strip().partition(" - ")
    return name if dash and word == "Model name" else None


def heading(text: str, draft: ReportDraft) -> None:
    """Headings make no row; a second one of a kind starts a second report."""
    word = text.strip()
    if word.startswith("Memory usage information"):
        draft.restart("pools", "totals")
    elif word == "Used memory ranges":
        draft.restart("ranges")
    elif word == "Epochs details":
        draft.restart("counts", "epochs")
    elif word.startswith("Requested memory size"):
        draft.restart("sections", "summary")
    elif word.startswith("m_id ") and "oshape" in word:
        draft.restart("layers", "connections")
        draft.table, draft.column = "layers", text.find(" macc ") + len(" macc")
    elif word.split() == ["module", "text", "rodata", "data", "bss"]:
        draft.table = "sections"
    elif word.startswith("FLASH (ro)"):
        draft.table = "summary"


def _place(text: str) -> tuple[str, int, int, int] | None:
    """`name [0xSTART - 0xEND]: `: name, both addresses, and where the rest begins."""
    at = text.find("[0x")
    match = _PLACE.match(text, at) if at > 0 else None
    name = text[:at].strip()
    if not match or not name or len(name) > _LONGEST_NAME:
        return None
    return name, int(match[1], 16), int(match[2], 16), match.end()


def pool(text: str, draft: ReportDraft) -> PoolLine | None:
    place = _place(text)
    match = _POOL.match(text, place[3]) if place else None
    if not place or not match:
        return None
    cells = match.groups()
    return PoolLine(
        *place[:3],
        Use(_amount(cells[0], cells[1]), float(cells[4])),
        _amount(cells[2], cells[3]),
        Use(_amount(cells[5], cells[6]), float(cells[7])),
        Use(_amount(cells[8], cells[9]), float(cells[10])),
    )


def total(text: str, draft: ReportDraft) -> TotalLine | None:
    match = _TOTAL.match(text)
    if not match:
        return None
    cells = match.groups()
    return TotalLine(*(_amount(cells[i], cells[i + 1]) for i in (0, 2, 4)))


def _amount(value: str, unit: str) -> Amount:
    return Amount(float(value), unit)


def used_range(text: str, draft: ReportDraft) -> RangeLine | None:
    place = _place(text)
    if not place or not _PAIR.match(text, place[3]):
        return None
    pairs = _PAIR.findall(text, place[3])
    return RangeLine(*place[:3], tuple((int(low, 16), int(high, 16)) for low, high in pairs))


def count(text: str, draft: ReportDraft) -> dict[str, int] | None:
    for name, pattern in _COUNTS:
        match = pattern.match(text)
        if match:
            more = (("software", _SOFTWARE), ("blobs", _BLOBS))
            rest = {key: rule.match(text, match.end()) for key, rule in more}
            return {name: int(match[1]), **{key: int(hit[1]) for key, hit in rest.items() if hit}}
    return None


def epoch(text: str, draft: ReportDraft) -> EpochLine | None:
    """`epoch 2 -SW- ( Softmax )`, or a row of the boxed table."""
    if text.lstrip().startswith("|"):
        return _boxed_epoch([cell.strip() for cell in text.strip().strip("|").split("|", 2)])
    match = _EPOCH.match(text)
    if not match:
        return None
    details = text[match.end() :].strip()
    if details and not (details.startswith("(") and details.endswith(")")):
        return None
    return EpochLine(int(match[1]), int(match[1]), match[2], details[1:-1].strip())


def _boxed_epoch(cells: list[str]) -> EpochLine | None:
    match = _EPOCH_CELL.match(cells[0])
    if not match or len(cells) != 3:
        return None
    return EpochLine(int(match[1]), int(match[2] or match[1]), cells[1], cells[2])


def model_total(text: str, draft: ReportDraft) -> tuple[tuple[str, int | None], ...] | None:
    if not text.lstrip().startswith("model: macc="):
        return None
    draft.table = ""
    return tuple((key, whole(value)) for key, value in _MODEL_TOTAL.findall(text))


def layer(text: str, draft: ReportDraft) -> LayerLine | None:
    """`m_id name (original) [shape] params/size macc input`; most cells may be empty."""
    if draft.table != "layers":
        return None
    head, bracket, tail = text.partition(" [")
    shape, close, rest = tail.partition("]")
    name, m_id = _layer_name(head, draft)
    if not bracket or not close or m_id is None:
        return None
    label, _, original = name.rpartition(" (")
    row = LayerLine(m_id, label or name, original.removesuffix(")"), shape)
    start = len(text) - len(rest)
    if len(rest.split(None, _MOST_CELLS)) > _MOST_CELLS:
        return None
    for cell_match in re.finditer(r"\S+", rest):
        cell = cell_match[0]
        params, slash, size = cell.partition("/")
        if start + cell_match.start() >= draft.column:
            row = replace(row, inputs=(*row.inputs, cell))
        elif slash and whole(params) is not None and whole(size) is not None:
            row = replace(row, params=whole(params), size_bytes=whole(size))
        elif whole(cell) is not None:
            row = replace(row, macc=whole(cell))
        else:
            row = replace(row, inputs=(*row.inputs, cell))
    return row


def _layer_name(head: str, draft: ReportDraft) -> tuple[str, int | None]:
    """The id stands on the first layer of an operator only."""
    first, _, rest = head.strip().partition(" ")
    if not head.startswith(" "):
        return rest.strip(), whole(first)
    above = draft.last("layers")
    return head.strip(), above.m_id if above else None


def connection(text: str, draft: ReportDraft) -> str | None:
    """A line with nothing but a further input of the layer above."""
    above = draft.last("layers")
    if draft.table != "layers" or not above or not text.startswith(" " * 20):
        return None
    words = text.split(None, 1)
    if len(words) != 1 or words[0].startswith("--") or len(above.inputs) >= _MOST_INPUTS:
        return None
    draft.replace_last("layers", replace(above, inputs=(*above.inputs, words[0])))
    return words[0]


def section(text: str, draft: ReportDraft) -> SectionLine | None:
    cells = text.split()
    sizes = [whole(cell) for cell in cells[-4:]]
    if draft.table != "sections" or len(cells) < 5 or None in sizes:
        return None
    return SectionLine(" ".join(cells[:-4]), *(size for size in sizes if size is not None))


def summary(text: str, draft: ReportDraft) -> SummaryLine | None:
    """`name flash [%] ram [%]`."""
    cells = text.split()
    first = next((i for i, cell in enumerate(cells) if whole(cell) is not None), 0)
    sizes = [whole(cell) for cell in cells[first:] if "%" not in cell]
    if draft.table != "summary" or not first or len(sizes) != 2 or None in sizes:
        return None
    shares = [number(cell) for cell in cells[first:] if "%" in cell]
    if len(shares) not in (0, 2):
        return None
    return SummaryLine(" ".join(cells[:first]), sizes[0] or 0, sizes[1] or 0, *shares)


GENERATE_RULES: tuple[LineRule, ...] = (
    ("headings", heading),
    ("pools", pool),
    ("ranges", used_range),
    ("totals", total),
    ("epochs", epoch),
    ("counts", count),
    ("model_totals", model_total),
    ("layers", layer),
    ("connections", connection),
    ("sections", section),
    ("summary", summary),
    ("model_names", model_name),
    ("tools", tool),
    ("titles", title),
)


# --- Reading a whole report, from a file or inside a log ---


def read_generate_report(path: str | Path) -> GenerateReport:
    """Read a report; a text with neither pools nor epochs is not a report."""
    report = parse_generate_report(read_lines(path))
    if not (report.pools or report.epochs or report.counts):
        raise FileError(
            "no memory pools and no epochs: this is not a generate report",
            where=str(path),
            hint="give the network_generate_report.txt of st_ai_output/, or the tool's output",
        )
    return report


def parse_generate_report(lines: tuple[ReportLine, ...]) -> GenerateReport:
    draft = ReportDraft()
    read_into(draft, lines, GENERATE_RULES)
    return generate_part(draft, unread(lines, draft.used()))


def generate_part(draft: ReportDraft, ignored: tuple[str, ...] = ()) -> GenerateReport:
    """What a draft has of this report; logs hold more than one kind."""
    totals = draft.get("totals")
    names = draft.get("model_names")
    model_totals = draft.get("model_totals")
    return GenerateReport(
        tools=draft.get("tools"),
        model_name=names[0] if names else "",
        layers=draft.get("layers"),
        model_totals=model_totals[-1] if model_totals else (),
        pools=draft.get("pools"),
        total=totals[-1] if totals else None,
        used_ranges=draft.get("ranges"),
        counts=_counts(draft),
        epochs=draft.get("epochs"),
        sections=draft.get("sections"),
        summary=draft.get("summary"),
        titles=draft.get("titles"),
        entries=draft.get("entries"),
        ignored=ignored,
    )


def _counts(draft: ReportDraft) -> Counts | None:
    """The count lines together; one that was cut off counts as none."""
    counts: dict[str, int] = {}
    for row in draft.get("counts"):
        counts.update(row)
    if "total" not in counts:
        return None
    return Counts(**{"software": 0, **counts})
