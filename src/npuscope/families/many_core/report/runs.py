"""Runs of many cores from opstats results or raw buffers, as the Profile that all verbs share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuscope.bounded_file import RESULT, parse_json, read_bytes, read_head
from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.families.many_core.adapters.registry import read_sheet
from npuscope.families.many_core.adapters.tables import sheet_tables
from npuscope.families.many_core.buffer_format import MAGIC, is_summary
from npuscope.families.many_core.container import FILE_NAME
from npuscope.families.many_core.inference import core_figures
from npuscope.families.many_core.opstats.model import Opstats
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.families.many_core.report.opstats_json import opstats_json
from npuscope.families.many_core.report.opstats_work import OpstatsRequest, work
from npuscope.families.many_core.rules import FAMILY
from npuscope.profiling.model import MachineInfo, ModelInfo, Profile, Provenance
from npuscope.profiling.plain import plain_part, plain_profile
from npuscope.rulebook.finding import Finding, finding_from_json
from npuscope.shown import counted
from npuscope.text import safe_terminal

_SUMMARY_HEAD = 4096
_MS = 1e3 / UTIMER_HZ  # nothing but the simulator writes buffers of this layout


def read_core_run(path: Path) -> Profile:
    """The mean of the buffers of a run. Parts are ops of all cores together, by label; the result
    as `opstats --json` writes it is the payload."""
    if path.is_dir() or read_head(path, len(MAGIC)) == MAGIC:
        return _run(path, opstats_json(decoded_tables(path)))
    if is_summary(read_head(path, _SUMMARY_HEAD)):
        sheet = read_sheet(path)
        return _run(path, opstats_json([sheet_tables(sheet)]), sheet.provenance)
    try:
        return _run(path, parse_json(read_bytes(path, RESULT)))
    except NpuscopeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise FileError(
            f"is not a whole result of opstats: {error}", where=safe_terminal(str(path))
        ) from None


def decoded_tables(path: Path) -> list[Opstats]:
    """Raw buffers are read with the program that wrote them, which lies near them."""
    folder = path if path.is_dir() else path.parent
    near = (folder, folder.parent, folder.parent / "binaries")
    qpc = next((place / FILE_NAME for place in near if (place / FILE_NAME).is_file()), None)
    if qpc is None:
        raise UsageError(
            "stats buffers are read with the program that wrote them",
            where=safe_terminal(str(path)),
            hint=f"put its {FILE_NAME} beside them, or give what `npuscope opstats --json` wrote",
        )
    outcome = work(OpstatsRequest.to_read(qpc, path))
    if outcome.damaged:
        raise FileError("; ".join(outcome.damaged), where=safe_terminal(str(path)))
    return outcome.tables


def _run(
    path: Path, result: Mapping[str, Any], provenance: Provenance = Provenance.SIMULATION
) -> Profile:
    buffers, totals = result["buffers"], result["totals"]
    number = max(len(buffers), 1)
    first = buffers[0] if buffers else {}
    traffic = [one["totals"]["ddr_bytes"] for one in buffers]
    is_stated = bool(traffic) and None not in traffic
    total_ms = float(totals["ucycles_mean"]) * _MS
    machine, cores = str(first.get("machine") or ""), len(first.get("cores", ()))
    bound = first["verdict"]["bound"] if buffers else ""
    return plain_profile(
        ModelInfo(path.name, "", (), (), 0, 0),
        MachineInfo(machine or FAMILY, "", False, 0.0, 0.0),
        [
            plain_part(
                place,
                str(row["details"]),
                float(row["ucycles"]) * _MS / number,
                operators=(str(row["details"]),),
                provenance=provenance,
            )
            for place, row in enumerate(result["ops"])
        ],
        total_ms=total_ms,
        provenance=provenance,
        inferences=number,
        notes=[str(note) for note in first.get("notes", ())],
        family=FAMILY,
        machine_words=f"{counted(cores, 'core')}, bound by {bound}",
        batch=max(1, round(float(totals["inferences_per_s_mean"]) * total_ms / 1e3)),
        figures=core_figures(
            sum(traffic) / number if is_stated else None,
            first["verdict"]["shares"] if buffers else {},
            result_findings(path, first) if "findings" in first else None,
        ),
        payload=result,
    )


def result_findings(path: Path, buffer: Mapping[str, Any]) -> tuple[Finding, ...]:
    place = f"{path}: $.buffers[0].findings"
    rows = enumerate(buffer.get("findings", ()))
    return tuple(finding_from_json(row, f"{place}[{number}]") for number, row in rows)
