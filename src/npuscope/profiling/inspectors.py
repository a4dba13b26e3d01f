"""Inspectors of the files that tell of runs; `identify` takes them by kind."""

from __future__ import annotations

from typing import Any

from npuscope.profiling.profiler_log import ProfilerLog, read_profiler_log
from npuscope.profiling.validate_report import ValidateReport, read_validate_report
from npuscope.program.identify import Inspector
from npuscope.program.inspectors.sample import Found, Sample, plain
from npuscope.program.inspectors.texts import report_counts
from npuscope.program.model import EpochKind


def inspect_validate_report(sample: Sample) -> Found:
    report = read_validate_report(sample.path)
    return Found(report.version, validate_counts(report), _values(report), report.ignored)


def validate_counts(report: ValidateReport) -> dict[str, Any]:
    """Counts of what ran; those of the generate report beside them where the log has it."""
    built = report_counts(report.report) if report.report.counts else {}
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
    return {**built, **measured}


def inspect_profiler_log(sample: Sample) -> Found:
    log = read_profiler_log(sample.path)
    return Found(log.version, log_counts(log), _values(log), log.ignored)


def log_counts(log: ProfilerLog) -> dict[str, Any]:
    return {
        "network": log.results.network,
        "nodes": len({(node.first, node.last) for node in log.nodes}),
        "node_runs": len(log.nodes),
        "inferences": sum(bool(row.name) for row in log.inferences),
        "epoch_reports": len(log.epochs),
        "duration_ms": log.results.duration.mean_ms if log.results.duration else None,
        **{f"{name}_hz": log.clock_hz(name) for name in ("mcu", "noc", "npu", "nic")},
    }


def _values(record: ValidateReport | ProfilerLog) -> dict[str, Any]:
    values: dict[str, Any] = plain(record)
    del values["ignored"]
    return values


INSPECTORS: dict[str, Inspector] = {
    "validate_report": inspect_validate_report,
    "profiler_log": inspect_profiler_log,
}
