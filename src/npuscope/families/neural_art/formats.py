"""Files of the STM32N6's tools: how they are told from others, and who reads them."""

from __future__ import annotations

from npuscope.families.interface import Format, Rank
from npuscope.identify import binary, build_files, documents, loadable, texts

_BLOBS = "npuscope.families.neural_art.blobs:"


def _content(kind: str, title: str, detect: object, inspect: object, **rest: str) -> Format:
    """By what is written in it; what may contain another kind stands before that."""
    return Format(kind, title, detect, inspect, Rank.CONTENT, **rest)  # type: ignore[arg-type]


# One kind per row is easier to read than the formatter's layout.
# fmt: off
FORMATS: tuple[Format, ...] = (
    Format("loadable", "runtime-loadable image", binary.is_loadable, loadable.inspect_loadable),
    Format("ec_blob", "epoch-controller blobs", binary.is_blob, binary.inspect_blob,
        disassemble=f"{_BLOBS}disassemble_blobs"),
    _content("c_info", "network description (c_info.json)",
        documents.is_c_info, documents.inspect_c_info),
    _content("quant_json", "quantization of a model (_Q.json)",
        documents.is_quant_json, documents.inspect_quant_json),
    _content("mpool", "memory pools", documents.is_mpool, documents.inspect_mpool),
    _content("mdesc", "machine description", documents.is_mdesc, documents.inspect_mdesc),
    _content("art_profile", "compiler profiles (neural_art.json)",
        documents.is_art_profile, documents.inspect_art_profile),
    _content("report_json", "report of the front end (JSON)",
        build_files.is_report_json, build_files.inspect_report_json),
    _content("c_graph", "layers of a network (c_graph.json)",
        build_files.is_c_graph, build_files.inspect_c_graph),
    _content("atonn_options", "options of a compiler run",
        build_files.is_atonn_options, build_files.inspect_atonn_options),
    _content("validation_csv", "inputs or outputs of a validation",
        build_files.is_validation_csv, build_files.inspect_validation_csv),
    _content("network_csv", "epoch table (network.csv)",
        texts.is_network_csv, texts.inspect_network_csv),
    _content("ec_listing", "text of epoch-controller blobs",
        texts.is_listing, texts.inspect_listing, assemble=f"{_BLOBS}assemble_blob"),
    _content("ec_blob", "epoch-controller blobs", texts.is_blob_header, texts.inspect_blob_header,
        disassemble=f"{_BLOBS}disassemble_blobs"),
    _content("runtime_source", "source of the NPU's runtime",
        build_files.is_runtime_source, build_files.inspect_runtime_source),
    _content("blob_trace", "recorder of epoch-controller blobs (source)",
        build_files.is_blob_trace, build_files.inspect_blob_trace),
    _content("network_c", "network source (network.c)",
        texts.is_network_c, texts.inspect_network_c),
    _content("profiler_log", "log of the NPU profiler",
        texts.is_profiler_log, texts.inspect_profiler_log),
    _content("validate_report", "validate report",
        texts.is_validate_report, texts.inspect_validate_report),
    _content("generate_report", "generate report",
        texts.is_generate_report, texts.inspect_generate_report),
    _content("cpu_report", "report for a CPU target",
        build_files.is_cpu_report, build_files.inspect_cpu_report),
    _content("weights_c", "weights as a C array",
        build_files.is_weights_c, build_files.inspect_weights_c),
    _content("network_h", "network header",
        build_files.is_network_h, build_files.inspect_network_h),
    _content("stai_api", "ST.AI interface to a network",
        build_files.is_stai_api, build_files.inspect_stai_api),
)
# fmt: on
