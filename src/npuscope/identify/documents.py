"""JSON files: the vendor's descriptions and our own records. All of the file is in `values`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from npuscope.errors import NpuscopeError
from npuscope.identify.sample import FileFacts, Sample, plain
from npuscope.identify.texts import program_counts
from npuscope.program.model import LISTS_ALL_EPOCHS
from npuscope.program.sources import read_program

_OWN = "npuscope/"
_POOLS = "memory_pools"
_MD5_DIGITS = 32


def is_schema(kind: str) -> Callable[[Sample], bool]:
    """A detector of our own files by the schema they name."""

    def detect(sample: Sample) -> bool:
        schema = sample.document.get("schema")
        return isinstance(schema, str) and schema.startswith(f"{_OWN}{kind}/")

    return detect


def inspect_own(sample: Sample) -> FileFacts:
    record = sample.document
    epochs = _rows(record, "epochs")
    kinds = Counter(_text(row.get("kind")) for row in epochs if isinstance(row, dict))
    summary = {
        "name": _text(record.get("name")),
        "epochs": _listed_epochs(record, epochs) or len(epochs) - kinds["EMPTY"],
        "sw_epochs": kinds["SW"],
        "hybrid_epochs": kinds["HYBRID"],
        "buffers": len(_rows(record, "buffers")),
        "pools": len(_rows(record, "pools")),
        "model_md5": _text(record.get("model_md5")) or _text(_table(record, "model").get("md5")),
    }
    return FileFacts(str(record["schema"]).rpartition("/")[2], summary, plain(record))


def _listed_epochs(record: dict[str, Any], epochs: list[Any]) -> int:
    """Of a compiler that counts every number, also those without work."""
    if not _text(record.get("generation")).startswith(LISTS_ALL_EPOCHS):
        return 0
    lasts = (row.get("last_number") for row in epochs if isinstance(row, dict))
    return max((last for last in lasts if isinstance(last, int)), default=0)


def is_c_info(sample: Sample) -> bool:
    keys = sample.document.keys()
    return "json_schema_version" in keys and bool(
        keys & {"graphs", "buffers", "validation", "aton_execution_time"}
    )


def inspect_c_info(sample: Sample) -> FileFacts:
    record = sample.document
    nodes = _epoch_nodes(record)
    kinds = Counter(_text(node.get("mapping")) for node in nodes)
    estimates = _dicts(record, "power_estimates")
    summary = {
        "flavour": _flavour(record),
        "tools": [_text(tool.get("version")) for tool in _dicts(_environment(record), "tools")],
        "epochs": len(nodes),
        "sw_epochs": kinds["NODE_SW"],
        "hybrid_epochs": kinds["NODE_SW_HW"],
        "hw_epochs": kinds["NODE_HW"] + kinds["NODE_EC"],
        **_network(sample, kinds),
        "buffers": len(_rows(record, "buffers")),
        "pools": len(_rows(record, "memory_pools")),
        "blobs": len(_rows(record, "ec_blobs_info")),
        "total_max_cycles": _total(estimates, "max_cycles"),
        "total_compute_cycles": _total(estimates, "compute_cycles"),
        "total_ops": _total(estimates, "ops"),
        "measured_nodes": len(_rows(record, "aton_execution_time")),
        "model_md5": model_md5(record),
        **_notes(sample),
    }
    return FileFacts(_text(record.get("json_schema_version")), summary, plain(record))


def _network(sample: Sample, kinds: Counter[str]) -> dict[str, Any]:
    """What the network is, as `estimate` tells it, if the file describes one for the NPU."""
    if not kinds:
        return {}
    try:
        counts = program_counts(read_program(sample.path))
    except NpuscopeError:
        return {}
    return {name: counts[name] for name in ("inputs", "outputs", "macs", "params")}


def _epoch_nodes(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Epochs that run: the first node holds the parameters, the last one closes the network."""
    graphs = _dicts(record, "graphs")
    nodes = _dicts(graphs[0], "nodes") if graphs else []
    holders = [row["blob_id"] for row in _dicts(record, "ec_blobs_info") if "blob_id" in row]
    # From 4.0 on a blob is a node that holds its epochs, in the end the closing one too.
    listed = [
        inner
        for node in nodes
        for inner in (_dicts(node, "subgraph_nodes") if node.get("id") in holders else [node])
    ]
    return [node for node in listed[1:-1] if node.get("mapping") != "NODE_NO_X"]


def _flavour(record: dict[str, Any]) -> str:
    measured = "aton_execution_time" in record or "validation" in record
    if "graphs" not in record:
        return "validation only"
    memories = [_table(pool, "attributes") for pool in _dicts(record, _POOLS)]
    if any(memories) and not any("byte_width" in memory for memory in memories):
        return "CPU target"
    made_by = "front-end" if "memory_footprint" in record else "compiler"
    return f"{made_by}, validated" if measured else made_by


def is_quant_json(sample: Sample) -> bool:
    record = sample.document
    return isinstance(record.get("tensors"), dict) and isinstance(record.get("nodes"), dict)


def inspect_quant_json(sample: Sample) -> FileFacts:
    record = sample.document
    info = _table(record, "model_info")
    summary = {
        "tensors": len(record["tensors"]),
        "nodes": len(record["nodes"]),
        "inputs": len(_rows(info, "original_inputs")),
        "outputs": len(_rows(info, "original_outputs")),
        "tools": [_text(tool.get("version")) for tool in _dicts(_environment(record), "tools")],
        "model_md5": model_md5(record),
        **_notes(sample),
    }
    return FileFacts(_text(record.get("version")), summary, plain(record))


def model_md5(record: dict[str, Any]) -> str:
    """The model's fingerprint: the signature of the first tool's input."""
    for tool in _dicts(_environment(record), "tools"):
        for file in _dicts(_table(tool, "input_model"), "model_files"):
            digits = _text(file.get("signature")).removeprefix("0x")
            if len(digits) == _MD5_DIGITS:
                return digits
    return ""


def is_mpool(sample: Sample) -> bool:
    return "mempools" in _table(sample.document, "memory")


def inspect_mpool(sample: Sample) -> FileFacts:
    from npuscope.machine.load import load_machine
    from npuscope.machine.mpool import read_mpool_file

    pools = read_mpool_file(sample.path, load_machine())
    real = [pool for pool in pools.pools if pool.size_bytes]
    summary = {
        "pools": len(pools.pools),
        "pools_in_use": len(real),
        "total_bytes": sum(pool.size_bytes for pool in real),
        "cache_bytes": pools.cache_bytes,
        "memories": [
            {
                "name": pool.name,
                "file": pool.file,
                "address": f"{pool.address:#010x}",
                "size_bytes": pool.size_bytes,
                "bytes_per_cycle": round(pool.byte_width / pool.freq_ratio, 3),
                "access": "read and write" if pool.writable else "read only",
                "cached": "yes" if pool.cacheable else "no",
            }
            for pool in pools.pools
        ],
        "notes": list(pools.notes),
    }
    return FileFacts("", summary, plain(sample.document))


def is_mdesc(sample: Sample) -> bool:
    return "accelerators" in _table(sample.document, "machine")


def inspect_mdesc(sample: Sample) -> FileFacts:
    from npuscope.machine.vendor_options import read_mdesc

    description = read_mdesc(sample.path)
    summary = {
        "machine": description.name,
        "units": description.counts,
        "mpool": description.mpool_name,
        "notes": list(description.notes),
    }
    return FileFacts(description.version, summary, plain(sample.document))


def is_art_profile(sample: Sample) -> bool:
    return isinstance(sample.document.get("Profiles"), dict)


def inspect_art_profile(sample: Sample) -> FileFacts:
    profiles = sample.document["Profiles"]
    summary = {"profiles": len(profiles), "names": [str(name) for name in profiles]}
    return FileFacts("", {**summary, **_notes(sample)}, plain(sample.document))


def _notes(sample: Sample) -> dict[str, list[str]]:
    """Slips that were repaired on the way."""
    return {"notes": list(sample.json.notes)} if sample.json.notes else {}


def _environment(record: dict[str, Any]) -> dict[str, Any]:
    return _table(record, "environment")


def _table(record: dict[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _rows(record: dict[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []


def _dicts(record: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [row for row in _rows(record, key) if isinstance(row, dict)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _total(rows: list[dict[str, Any]], key: str) -> int:
    """A sum over what is a number; cycles are whole, some tools write them as 12.0."""
    values = [row.get(key) for row in rows]
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return round(sum(float(number) for number in numbers if abs(number) < 1e18))
