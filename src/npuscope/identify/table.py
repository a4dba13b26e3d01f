"""What a file is, by its content, and what is in it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from msgspec import Struct, field

from npuscope.bounded_file import REPORT
from npuscope.errors import FileError
from npuscope.identify import binary, build_files, documents, loadable, texts
from npuscope.identify.sample import FileFacts, Sample
from npuscope.text import safe_terminal

Inspector = Callable[[Sample], FileFacts]


class Format(Struct, frozen=True):
    """A kind of file: how it is told from others, and who reads it."""

    kind: str
    detect: Callable[[Sample], bool]
    inspect: Inspector


class Identity(Struct, frozen=True):
    """`summary` has the counts of the format and, under `values`, all numbers of the file.

    `ignored` names the parts of the file that are in neither.
    """

    kind: str
    version: str
    summary: dict[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def _of(family: str, function: str) -> Inspector:
    """An inspector of a family's own file, loaded when such a file is there."""

    def inspect(sample: Sample) -> FileFacts:
        module = import_module(f"npuscope.families.{family}.inspect")
        found: FileFacts = getattr(module, function)(sample)
        return found

    return inspect


# The first row that fits wins: what may contain another kind stands before it.
FORMATS: tuple[Format, ...] = (
    Format("tflite", binary.is_tflite, binary.inspect_model),
    Format("loadable", binary.is_loadable, loadable.inspect_loadable),
    Format("qpc", binary.is_qpc, _of("many_core", "inspect_qpc")),
    Format("stats_buffer", binary.is_stats_buffer, _of("many_core", "inspect_stats_buffer")),
    Format("ec_blob", binary.is_blob, binary.inspect_blob),
    Format("intel_hex", build_files.is_hex_file, build_files.inspect_hex),
    Format("elf", build_files.is_elf_file, build_files.inspect_elf),
    Format("onnx", binary.is_onnx, binary.inspect_model),
    Format("program", documents.is_schema("program"), documents.inspect_own),
    Format("profile", documents.is_schema("profile"), documents.inspect_own),
    Format("estimate", documents.is_schema("estimate"), documents.inspect_own),
    Format("opstats", documents.is_schema("opstats"), documents.inspect_opstats),
    Format("c_info", documents.is_c_info, documents.inspect_c_info),
    Format("quant_json", documents.is_quant_json, documents.inspect_quant_json),
    Format("mpool", documents.is_mpool, documents.inspect_mpool),
    Format("mdesc", documents.is_mdesc, documents.inspect_mdesc),
    Format("art_profile", documents.is_art_profile, documents.inspect_art_profile),
    Format("report_json", build_files.is_report_json, build_files.inspect_report_json),
    Format("c_graph", build_files.is_c_graph, build_files.inspect_c_graph),
    Format("atonn_options", build_files.is_atonn_options, build_files.inspect_atonn_options),
    Format("validation_csv", build_files.is_validation_csv, build_files.inspect_validation_csv),
    Format("network_csv", texts.is_network_csv, texts.inspect_network_csv),
    Format("ec_listing", texts.is_listing, texts.inspect_listing),
    Format("ec_blob", texts.is_blob_header, texts.inspect_blob_header),
    Format("blob_trace", build_files.is_blob_trace, build_files.inspect_blob_trace),
    Format("network_c", texts.is_network_c, texts.inspect_network_c),
    Format("profiler_log", texts.is_profiler_log, texts.inspect_profiler_log),
    Format("validate_report", texts.is_validate_report, texts.inspect_validate_report),
    Format("generate_report", texts.is_generate_report, texts.inspect_generate_report),
    Format("cpu_report", build_files.is_cpu_report, build_files.inspect_cpu_report),
    Format("weights_c", build_files.is_weights_c, build_files.inspect_weights_c),
    Format("network_h", build_files.is_network_h, build_files.inspect_network_h),
    Format("stai_api", build_files.is_stai_api, build_files.inspect_stai_api),
    Format("raw_image", binary.is_raw_image, _of("many_core", "inspect_raw")),
)


def format_of(sample: Sample) -> Format:
    """The row of the table that fits."""
    row = next((row for row in FORMATS if row.detect(sample)), None)
    if row is None:
        raise unknown(sample)
    return row


def unknown(sample: Sample) -> FileError:
    if sample.size > REPORT.most_bytes:
        return FileError(
            f"has {sample.size:,} bytes of text, at most {REPORT.most_bytes:,}",
            where=str(sample.path),
        )
    refusal = build_files.refusal(sample)
    if refusal is not None:
        return refusal
    kinds = ", ".join(dict.fromkeys(row.kind for row in FORMATS))
    start = safe_terminal(sample.head[:24].decode("utf-8", errors="replace"))
    return build_files.OtherFile(
        f"is of no kind that is known here; it starts with '{start}'",
        where=str(sample.path),
        hint=f"known kinds: {kinds}",
    )
