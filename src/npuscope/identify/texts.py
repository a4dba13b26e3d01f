"""Inspectors of the files that tell of runs; `identify` takes them by kind."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from npuscope.errors import FileError
from npuscope.identify.sample import FileFacts, Sample, plain
from npuscope.profiling import profiler_log, validate_report
from npuscope.profiling.facts import model_info
from npuscope.profiling.model import TensorInfo
from npuscope.profiling.profiler_log import ProfilerLog, read_profiler_log
from npuscope.profiling.validate_report import ValidateReport, read_validate_report
from npuscope.program.ec_blob.assembly import assemble
from npuscope.program.ec_blob.instructions import Label
from npuscope.program.generate_report.model import GenerateReport
from npuscope.program.generate_report.reader import read_generate_report
from npuscope.program.model import EpochKind, Program
from npuscope.program.sources import read_program

# Text files: reports, tables, C sources.

_LISTED = re.compile(r"^; epoch-controller blob: \d{1,9} words?, \d{1,9} epochs?", re.M)
# The recorder's text (debug__ec_blob_*.s): comments, then a label or writes to pages by number.
_RECORDED = re.compile(
    r"(?:;[^\n]{0,400}\n|\s){0,400}"
    r"(?:label 0x[0-9a-f]{1,8}|(?:write|writefield|burstwrite|burstwriteinc|poll) \d{1,2} \d{1,4} )"
)
_BLOB = re.compile(r"uint64_t\s+(\w{1,200})\s*\[[^\]\n]{0,40}\][^=;{]{0,200}=\s*\{")
_ITEMS = re.compile(r"LL_ATON_EpochBlockItems_(\w{1,200})\s*\(")
_COMPILER = re.compile(r"\bGIT_DESCRIPTION[^\w\n]{1,10}(\S{1,80})")
_C_NUMBER = re.compile(
    r"(?<![\w.])-?(?:0[xX][0-9A-Fa-f]{1,32}|\d{1,40}(?:\.\d{1,40})?(?:[eE][-+]?\d{1,4})?)"
)
_NEW_ITEM = "LL_ATON_RT_EpochBlockItem_t"
_OLD_ITEM = "EpochBlock_ItemTypeDef"
_FLAG_SW, _FLAG_HYBRID = "EpochBlock_Flags_pure_sw", "EpochBlock_Flags_hybrid"


def is_generate_report(sample: Sample) -> bool:
    text = sample.text
    return "Total number of epochs" in text or "Memory usage information" in text


def inspect_generate_report(sample: Sample) -> FileFacts:
    report = read_generate_report(sample.path)
    return FileFacts(
        report.version, report_counts(report), plain(report_values(report)), report.ignored
    )


def report_values(report: GenerateReport) -> dict[str, Any]:
    values: dict[str, Any] = plain(report)
    del values["ignored"]
    return values


def report_counts(report: GenerateReport) -> dict[str, Any]:
    """The report's own counts; rows of the table where it does not give one."""
    counts, total = report.counts, report.total
    stated = report.counts.hybrid if report.counts else None
    return {
        "tool": report.tools[0].name if report.tools else "",
        "compiler": report.compiler_version,
        "epochs": counts.total if counts else sum(r.last - r.first + 1 for r in report.epochs),
        "sw_epochs": counts.software if counts else report.count(EpochKind.SW),
        "hybrid_epochs": report.count(EpochKind.HYBRID) if stated is None else stated,
        "blobs": counts.blobs if counts else None,
        "epoch_rows": len(report.epochs),
        "layers": len(report.layers),
        "macc": dict(report.model_totals).get("macc"),
        "pools": len(report.pools),
        "used_bytes": total.used.bytes if total else None,
        "weights_bytes": total.weights.bytes if total else None,
        "activations_bytes": total.activations.bytes if total else None,
        "model_md5": report.model_hash.removeprefix("0x"),
    }


def is_validate_report(sample: Sample) -> bool:
    return validate_report.is_validate_report(sample.text)


def is_profiler_log(sample: Sample) -> bool:
    return profiler_log.is_profiler_log(sample.text)


def is_network_csv(sample: Sample) -> bool:
    return sample.text.startswith("epochs,")


def inspect_network_csv(sample: Sample) -> FileFacts:
    """Rows up to the first blank line are epochs; the first and last of them do not run."""
    rows = [[_cell(cell) for cell in line.text.split(",")] for line in sample.lines]
    head = [str(name) for name in rows[0]]
    end = next((i for i, row in enumerate(rows) if row == [""]), len(rows))
    totals = {str(row[0]): row[1] for row in rows[end:] if len(row) == 2}
    summary = {
        "rows": max(end - 1, 0),
        "epochs": max(end - 3, 0),
        "pools": sum(name.endswith("(r+w)") for name in head),
        "total_max_cycles": totals.get("Total cycles"),
        "total_compute_cycles": totals.get("Total ideal cycles"),
        "total_ops": totals.get("Total OPS"),
    }
    return FileFacts("", summary, {"columns": head, "rows": rows[1:]})


def _cell(text: str) -> int | float | str:
    bare = text.strip()
    if len(bare) > 40 or not bare.isascii() or "_" in bare:
        return bare
    for kind in (int, float):
        try:
            value = kind(bare)
        except ValueError:
            continue
        return value if abs(value) < 1e300 else bare
    return bare


def is_blob_header(sample: Sample) -> bool:
    return "_ec_blob_" in sample.text and bool(_blobs(sample.text)[0])


def inspect_blob_header(sample: Sample) -> FileFacts:
    bodies, others = _blobs(sample.text)
    blobs = {
        name: [int(word, 0) for word in re.findall(r"0x[0-9A-Fa-f]{1,16}", body)]
        for name, body in bodies
    }
    summary = {
        "blobs": len(blobs),
        "words": sum(len(words) for words in blobs.values()),
        "blob_bytes": 8 * sum(len(words) for words in blobs.values()),
        "magic": sorted({f"{words[0] & 0xFFFFFFFF:#x}" for words in blobs.values() if words}),
    }
    return FileFacts("", summary, {"words": blobs, "numbers_elsewhere": _numbers_by_line(others)})


def is_listing(sample: Sample) -> bool:
    start = sample.text[:4096] if sample.is_text else ""
    return _LISTED.search(start) is not None or _RECORDED.match(start) is not None


def inspect_listing(sample: Sample) -> FileFacts:
    """Text of a blob, as `npuscope disasm` or the vendor's recorder writes it."""
    try:
        blob = assemble(sample.text)
    except FileError as error:
        error.where = ", ".join(filter(None, (str(sample.path), error.where)))
        raise
    code = blob.instructions
    epochs = [step.number for step in code if isinstance(step, Label)]
    summary = {
        "blobs": 1,
        "words": sum(step.words for step in code),
        "epochs": len(epochs),
        "first_epoch": min(epochs, default=None),
        "last_epoch": max(epochs, default=None),
        "instructions": dict(Counter(step.name for step in code)),
        "set_when_loaded": [row.identifier for row in blob.relocations],
    }
    return FileFacts("", summary, {}, ("the instructions: `npuscope asm` reads them",))


def _blobs(text: str) -> tuple[list[tuple[str, str]], str]:
    """Name and body of every array, and the text around them with its lines kept."""
    blobs: list[tuple[str, str]] = []
    around: list[str] = []
    at = 0
    for head in _BLOB.finditer(text):
        end = text.find("}", head.end())
        if end < 0:
            break
        if head.start() < at or "_ec_blob_" not in head[1]:
            continue
        body = text[head.end() : end]
        blobs.append((head[1], body))
        around += [text[at : head.end()], "\n" * body.count("\n")]
        at = end
    return blobs, "".join([*around, text[at:]])


def is_network_c(sample: Sample) -> bool:
    text = sample.text
    has_table = _NEW_ITEM in text or _OLD_ITEM in text
    # A page about the profiler quotes a piece of a network.c beside the report.
    return (
        has_table
        and not profiler_log.EPOCH_TITLE.search(text)
        and ".end_epoch_block" in text
        and bool(_ITEMS.search(text))
    )


def inspect_network_c(sample: Sample) -> FileFacts:
    """Counts of the program, as `estimate` has them; of a damaged source what its table states."""
    text = sample.text
    name = _ITEMS.search(text)
    if name is None:  # the detector asked already
        raise FileError("no table of epoch blocks", where=str(sample.path))
    made_by = _COMPILER.search(text)
    compiler = made_by[1].strip('"') if made_by else ""
    flags = [line for line in text.split("\n") if ".flags" in line]
    head = {"network": name[1], "compiler": compiler}
    items = {"items": sum("_last_eb" not in line for line in flags)}
    try:
        program = read_program(sample.path)
    except FileError as error:
        stated = {
            "epochs": sum("epoch_start" in line for line in flags),
            "sw_epochs": sum(_FLAG_SW in line for line in flags),
            "hybrid_epochs": sum(_FLAG_HYBRID in line for line in flags),
            "blobs": sum("_Flags_blob" in line for line in flags),
        }
        return FileFacts(compiler, {**head, **items, **stated}, {}, (f"epochs: {error.message}",))
    summary = {**head, "generation": program.generation, **program_counts(program), **items}
    return FileFacts(compiler, summary, {"epochs": program.table()}, program.notes)


def program_counts(program: Program) -> dict[str, Any]:
    """What `inspect` tells of a compiled network, whatever file it was read from."""
    model = model_info(program)
    sides = {"inputs": model.inputs, "outputs": model.outputs}
    return {
        **{side: [tensor_text(one) for one in tensors] for side, tensors in sides.items()},
        "macs": model.macs or None,
        "params": model.params or None,
        "epochs": sum(program.tally.values()),
        "sw_epochs": program.count(EpochKind.SW),
        "hybrid_epochs": program.count(EpochKind.HYBRID),
        "blobs": len({epoch.blob for epoch in program.epochs} - {None}),
        "buffers": len(program.buffers),
        "pools": len(program.pools),
    }


def tensor_text(tensor: TensorInfo) -> str:
    shape = ",".join(map(str, tensor.shape))
    return f"{tensor.name} {tensor.dtype}[{shape}]"


def _numbers_by_line(text: str) -> dict[str, list[int | float]]:
    """Line number -> the numeric literals in it, in order."""
    numbers: dict[str, list[int | float]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        values = [_literal(literal) for literal in _C_NUMBER.findall(line)]
        if values:
            numbers[str(number)] = values
    return numbers


def _literal(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:  # a decimal, or digits after a leading zero
        return float(text) if abs(float(text)) < 1e300 else 0


def inspect_validate_report(sample: Sample) -> FileFacts:
    report = read_validate_report(sample.path)
    return FileFacts(
        report.version, validate_counts(report), _record_values(report), report.ignored
    )


def validate_counts(report: ValidateReport) -> dict[str, Any]:
    """Counts of what ran; those of the generate report beside them where the log has it."""
    counts = report_counts(report.report) if report.report.counts else {}
    measured = {
        "network": report.network,
        "results_version": report.results_version,
        "samples": report.samples,
        "duration_ms": report.duration.mean_ms if report.duration else None,
        "nodes": len(report.nodes),
        "measured_epochs": len(report.epochs),
        "measured_sw_epochs": report.count(EpochKind.SW),
        "measured_hybrid_epochs": report.count(EpochKind.HYBRID),
        "outputs": sum(bool(row.output) for row in report.metrics),
        "model_md5": report.report.model_hash.removeprefix("0x"),
    }
    return {**counts, **measured}


def inspect_profiler_log(sample: Sample) -> FileFacts:
    log = read_profiler_log(sample.path)
    return FileFacts(log.version, log_counts(log), _record_values(log), log.ignored)


def log_counts(log: ProfilerLog) -> dict[str, Any]:
    # From the board's lines, else from the header of the report.
    return {
        "network": log.results.network or ", ".join(log.networks),
        "nodes": len({(node.first, node.last) for node in log.nodes}),
        "node_runs": len(log.nodes),
        "inferences": sum(bool(row.name) for row in log.inferences),
        "epoch_reports": len(log.epochs),
        "duration_ms": log.results.duration.mean_ms if log.results.duration else None,
        **{
            f"{name}_hz": (
                log.clock_hz(name)
                or round(1e6 * getattr(log.results.clocks, f"{name}_mhz"))
                or None
            )
            for name in ("mcu", "noc", "npu", "nic")
        },
    }


def _record_values(record: ValidateReport | ProfilerLog) -> dict[str, Any]:
    values: dict[str, Any] = plain(record)
    del values["ignored"]
    return values
