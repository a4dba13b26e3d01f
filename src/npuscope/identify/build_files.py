"""Files around a compiled network: weights in other wrappings, headers, logs of options, reports
of CPU targets, and what a repository holds besides."""

from __future__ import annotations

import re
from typing import Any

from npuscope.errors import FileError
from npuscope.identify.sample import Found, Sample, plain
from npuscope.program.weight_files import Segment, c_arrays, is_elf, is_hex, read_elf, read_hex

# Weights in Intel HEX, in object files and firmware, as arrays in C.

_POOL_ARRAY = re.compile(r"\bu?int\d{1,2}_t\s+_mem_pool_\w{1,200}\s*\[[^\]\n]{0,40}\]\s*=\s*\{")
_CPU_ARRAY = re.compile(r"\b(?:ai_u64|uint64_t)\s+\w{1,200}weights_array\w{0,80}\s*\[")
_ARM = 40


def is_hex_file(sample: Sample) -> bool:
    return is_hex(sample.head)


def inspect_hex(sample: Sample) -> Found:
    segments = read_hex(sample.path)
    return Found("", _size(segments), {"segments": _rows(segments)}, ("the bytes",))


def _size(segments: tuple[Segment, ...]) -> dict[str, Any]:
    return {
        "segments": len(segments),
        "data_bytes": sum(len(one.data) for one in segments),
        "addresses": [f"{one.address:#x}-{one.end:#x}" for one in segments[:8]],
    }


def _rows(segments: tuple[Segment, ...]) -> list[dict[str, Any]]:
    return [{"name": s.name, "address": s.address, "bytes": len(s.data)} for s in segments]


def is_elf_file(sample: Sample) -> bool:
    return is_elf(sample.head)


def inspect_elf(sample: Sample) -> Found:
    elf = read_elf(sample.path)
    pools = [one for one in elf.objects if one.name.startswith("_mem_pool_")]
    summary = {
        "what": "object file" if elf.relocatable else "firmware",
        "machine": "ARM" if elf.machine == _ARM else str(elf.machine),
        "sections": len(elf.sections),
        "weight_arrays": [f"{one.name}: {len(one.data)} bytes" for one in pools],
    }
    return Found("", summary, {"sections": _rows(elf.sections)}, ("the bytes of the sections",))


def is_weights_c(sample: Sample) -> bool:
    return bool(_POOL_ARRAY.search(sample.text))


def inspect_weights_c(sample: Sample) -> Found:
    arrays = c_arrays(sample.text, str(sample.path))
    summary = {
        "arrays": [one.name for one in arrays],
        "data_bytes": sum(len(one.data) for one in arrays),
    }
    return Found("", summary, {"arrays": _rows(arrays)}, ("the numbers of the arrays",))


# Headers and sources that the tools write beside network.c.

_NETWORK_H = re.compile(r'#define\s+LL_ATON_(\w{1,200})_C_MODEL_NAME\s+"([^"\n]{1,200})"')
_ORIGIN = re.compile(r'#define\s+LL_ATON_\w{1,200}_ORIGIN_MODEL_NAME\s+"([^"\n]{1,200})"')
_COUNT = re.compile(r"#define\s+LL_ATON_\w{1,200}_(IN|OUT)_NUM\s+\((\d{1,9})\)")
_STAI_FILE = re.compile(r"@file\s+stai_(\w{1,200})\.([ch])\b")
_BLOB_TRACE = "ll_aton_ec_trace.h"


def is_network_h(sample: Sample) -> bool:
    return bool(_NETWORK_H.search(sample.text))


def inspect_network_h(sample: Sample) -> Found:
    text = sample.text
    name, origin = _NETWORK_H.search(text), _ORIGIN.search(text)
    counts = {f"{way.lower()}puts": int(n) for way, n in _COUNT.findall(text)}
    summary = {"network": name[2] if name else "", "model_name": origin[1] if origin else ""}
    return Found("", {**summary, **counts})


def is_stai_api(sample: Sample) -> bool:
    return bool(_STAI_FILE.search(sample.text[:4000]))


def inspect_stai_api(sample: Sample) -> Found:
    name = _STAI_FILE.search(sample.text[:4000])
    summary = {
        "network": name[1] if name else "",
        "what": "the ST.AI interface to a network; the network itself is in its network.c",
    }
    return Found("", summary)


def is_blob_trace(sample: Sample) -> bool:
    return _BLOB_TRACE in sample.text


def inspect_blob_trace(sample: Sample) -> Found:
    blobs = sorted(set(re.findall(r"\b_?ec_blob_\w{1,200}", sample.text)))
    what = "the program that records blobs at compile time; the blobs are in the ecblobs.h"
    return Found("", {"what": what, "blobs": len(blobs)})


# Options of a compiler run, reports as JSON, inputs and outputs of a validation.

_OPTION = re.compile(r"^([\w-]{1,80})=(.{0,4000})$", re.MULTILINE)
_ATONN = re.compile(r"^# Version atonn\.(\S{1,80})", re.MULTILINE)


def is_atonn_options(sample: Sample) -> bool:
    return sample.head.startswith(b"# Tool:") and "onnx-input=" in sample.text


def inspect_atonn_options(sample: Sample) -> Found:
    options = {key: value.strip().strip('"') for key, value in _OPTION.findall(sample.text)}
    version = _ATONN.search(sample.text)
    summary = {
        "options": len(options),
        "input": options.get("onnx-input", "").replace("\\", "/").rpartition("/")[2],
        "output": options.get("c-output", ""),
    }
    return Found(version[1] if version else "", summary, options)


def is_report_json(sample: Sample) -> bool:
    return {"cli_parameters", "exec_cmd", "layers"} <= sample.document.keys()


def inspect_report_json(sample: Sample) -> Found:
    record = sample.document
    digits = str(record.get("hash", "")).removeprefix("0x")
    summary = {
        "command": record.get("exec_cmd"),
        "network": record.get("name"),
        "layers": len(record["layers"]) if isinstance(record["layers"], list) else 0,
        "model_md5": digits if len(digits) == 32 else "",
    }
    return Found(str(record.get("cli_version_str", "")), summary, plain(record))


def is_c_graph(sample: Sample) -> bool:
    return {"c_layers", "c_arrays", "memory_pools"} <= sample.document.keys()


def inspect_c_graph(sample: Sample) -> Found:
    record = sample.document
    epochs = record.get("epochs")
    summary = {
        "network": record.get("c_name"),
        "model_name": record.get("model_name"),
        "target": "NPU" if epochs else "CPU",
        "layers": _length(record["c_layers"]),
        "epochs": _length(epochs),
    }
    return Found(str(record.get("st_ai_version", "")), summary, plain(record))


def _length(value: object) -> int:
    return len(value) if isinstance(value, (list, dict)) else 0


_CSV_HEAD = re.compile(r"# file created *:[^\n]{0,80}\n# dtype=(\w{1,20})\s*\n# ([^\n]{0,200})")


def is_validation_csv(sample: Sample) -> bool:
    return bool(_CSV_HEAD.match(sample.text.replace("\r", "")[:2000]))


def inspect_validation_csv(sample: Sample) -> Found:
    text = sample.text.replace("\r", "")
    head = _CSV_HEAD.match(text)
    rows = sum(1 for line in text.split("\n") if line and not line.startswith("#"))
    told = {"type": head[1], "what": head[2]} if head else {}
    return Found("", {**told, "rows": rows}, {}, ("the values of the rows",))


# Reports of analyze and generate for targets without an NPU.

_CPU_TOOL = re.compile(r"(?:ST Edge AI Core|Neural Network Tools)[^\n]{0,80}?v\.?(\d[\w.-]{0,40})")
_ROW = re.compile(r"^([a-z][\w ()/#]{1,30}?) *: {1,8}(\S[^\n]{0,300}?) *$", re.MULTILINE)
_KEPT = ("c_name", "type", "target/series", "model_name", "macc", "weights (ro)", "ram (total)")


def is_cpu_report(sample: Sample) -> bool:
    text = sample.text
    return bool(_CPU_TOOL.search(text[:400])) and "Exec/report summary" in text


def inspect_cpu_report(sample: Sample) -> Found:
    """Layers of a CPU network: the runtime library has no epochs to tell of."""
    tool = _CPU_TOOL.search(sample.text[:400])
    rows = {key.strip(): value for key, value in _ROW.findall(sample.text)}
    md5 = rows.get("model_hash", "").removeprefix("0x")
    told = {key: rows[key] for key in _KEPT if key in rows}
    what = "a report for the CPU alone: layers of a runtime library, no epochs of the NPU"
    return Found(tool[1] if tool else "", {"what": what, **told, "model_md5": md5}, rows)


# Models of Keras, and text without a network: what it is in one sentence.

_HDF5 = b"\x89HDF\r\n\x1a\n"
_C_LINE = re.compile(r"^\s*#\s*(?:include|define|ifndef|ifdef|if|pragma)\b", re.MULTILINE)
_KERAS_HINT = "convert it to .tflite or .onnx: no tool here opens Keras files"


_KERAS = "is a model of Keras, which is not read here"
_SCRIPT = "is a script: it may call the compiler, and holds no network"
_CPU_DATA = "holds the data of a network for the CPU, no network for the NPU"
_CPU_HINT = "networks for the NPU have a network.c and images of memories"
_SOURCE = "is C of a runtime or an application: no network is compiled in it"
NO_PART_OF_A_BUILD = (_KERAS, _SCRIPT, _CPU_DATA, _SOURCE)


def refusal(sample: Sample) -> FileError | None:
    """What a file is that holds nothing to read here."""
    told = _told(sample)
    return FileError(told[0], where=str(sample.path), hint=told[1]) if told else None


def _told(sample: Sample) -> tuple[str, str] | None:
    head, suffix = sample.head, sample.path.suffix.lower()
    if head.startswith(_HDF5) or (suffix == ".keras" and head.startswith(b"PK\x03\x04")):
        return _KERAS, _KERAS_HINT
    if not sample.is_text:
        return None
    if head.startswith(b"#!"):
        return _SCRIPT, ""
    if _CPU_ARRAY.search(sample.text) or "AI_NETWORK_DATA_" in sample.text:
        return _CPU_DATA, _CPU_HINT
    return (_SOURCE, "") if _C_LINE.search(sample.text) else None
