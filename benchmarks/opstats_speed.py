"""Stats buffers decoded and traces written, beside json.dumps, orjson and the package `perfetto`.

    python benchmarks/opstats_speed.py --json opstats.json

A buffer of op records is read from bytes to columns (CRC and validity checked) and summed by core,
thread and kind. A trace of a 16-core run, seven arguments a slice and one flow for four slices, is
written to a file by each writer. Every case runs in a process of its own, best of several, so that
peak memory is its own; the figure includes Python, numpy and the trace in memory. Times are CPU
seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

Found = dict[str, Any]
DECODE_AIM = 15e6  # records per second
MEMORY_AIM_MB = 500
AIM_SLICES = 1_000_000
ORJSON_AIM = 2.5  # times its events per second, of our Chrome writer


@dataclass(frozen=True, slots=True)
class Writer:
    """A way to write a trace; the aim is in seconds for a million slices."""

    title: str
    aim_s: float | None = None
    package: str | None = None


WRITERS = {
    "perfetto": Writer("npuscope, Perfetto", 1.0),
    "chrome": Writer("npuscope, Chrome JSON", 6.0),
    "json_dumps": Writer("json.dumps, Chrome JSON"),
    "orjson": Writer("orjson, Chrome JSON", package="orjson"),
    "perfetto_package": Writer("package perfetto, Perfetto", package="perfetto"),
}


def main() -> int:
    options = _arguments()
    if options.case:
        print(json.dumps(measure(options.case, options)))
        return 0
    rows = [in_child("decode", options)]
    rows += [in_child(case, options) for case in WRITERS if _available(case)]
    print(_table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slices", type=int, default=1_000_000, help="of the trace")
    parser.add_argument("--records", type=int, default=2_000_000, help="of the stats buffer")
    parser.add_argument("--runs", type=int, default=3, help="of our side; the others run once")
    parser.add_argument("--json", type=Path, help="file to write the table to")
    parser.add_argument("--case", choices=("decode", *WRITERS), help=argparse.SUPPRESS)
    return parser.parse_args()


def _available(case: str) -> bool:
    package = WRITERS[case].package
    if package is None or find_spec(package) is not None:
        return True
    print(f"not compared: pip install {package}", file=sys.stderr)
    return False


def in_child(case: str, options: argparse.Namespace) -> Found:
    command = [sys.executable, __file__, "--case", case, "--slices", str(options.slices)]
    command += ["--records", str(options.records), "--runs", str(options.runs)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        raise SystemExit(f"{case}: {child.stderr.strip().splitlines()[-1]}")
    found: Found = json.loads(child.stdout.splitlines()[-1])
    return found


# One case, in its own process.


def measure(case: str, options: argparse.Namespace) -> Found:
    return decoding(options) if case == "decode" else writing(case, options)


def decoding(options: argparse.Namespace) -> Found:
    from npuscope.families.many_core.buffer import read_buffer, sums

    data, layout, count = _buffer(options.records)
    seconds = _best(lambda: sums(read_buffer(data, layout, "buffer")), options.runs)
    return {
        "case": "decode",
        "title": "npuscope, decode and sum",
        "items": count,
        "seconds": seconds,
        "items_per_s": count / seconds,
        "file_mb": len(data) / 1e6,
        "peak_mb": _peak_mb(),
    }


def _buffer(records: int) -> tuple[bytes, Any, int]:
    """Ops of a sample program in a loop, each time with its number in `sample`."""
    from many_core.samples import layout, stats, with_rows
    from npuscope.families.many_core.buffer import write_buffer
    from npuscope.families.many_core.layout import Pmu
    from npuscope.families.many_core.records import SectionId

    made = stats(layout(cores=16, level=70, pmu=Pmu(), ddr=False, repeat=100))
    once = made.of(SectionId.OP_REC)
    times = max(records // len(once), 1)
    rows = np.tile(once, times)
    rows["sample"] = np.repeat(np.arange(times), len(once))
    return write_buffer(with_rows(made, SectionId.OP_REC, rows)), made.layout, len(rows)


def writing(case: str, options: argparse.Namespace) -> Found:
    from trace_processor.samples import many_core_run

    start = time.perf_counter()
    model = many_core_run(options.slices)
    build_s = time.perf_counter() - start
    write = _writer(case)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        runs = options.runs if WRITERS[case].aim_s else 1
        seconds = _best(lambda: _to_file(write, model, path), runs)
        size = path.stat().st_size
    return {
        "case": case,
        "title": WRITERS[case].title,
        "items": len(model.slices),
        "flows": len(model.flows),
        "seconds": seconds,
        "build_seconds": build_s,
        "items_per_s": len(model.slices) / seconds,
        "file_mb": size / 1e6,
        "peak_mb": _peak_mb(),
    }


def _writer(case: str) -> Callable[[Any, BinaryIO], None]:
    if case == "perfetto":
        from npuscope.report.trace.perfetto import write_perfetto

        return write_perfetto
    if case == "chrome":
        from npuscope.report.trace.chrome import write_chrome

        return write_chrome
    import opstats_peers

    return {
        "json_dumps": opstats_peers.write_json_dumps,
        "orjson": opstats_peers.write_orjson,
        "perfetto_package": opstats_peers.write_perfetto_package,
    }[case]


def _to_file(write: Callable[[Any, BinaryIO], None], model: Any, path: Path) -> None:
    with path.open("wb") as file:
        write(model, file)


def _best(call: Callable[[], object], runs: int) -> float:
    return min(_timed(call) for _ in range(runs))


def _timed(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _peak_mb() -> float:
    """Linux only. Not getrusage: its peak includes the process that started this one."""
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


# All cases together.


def _table(rows: list[Found]) -> str:
    heads = f"{'':28}{'items':>11}{'flows':>9}{'seconds':>9}{'M items/s':>11}"
    lines = [f"{heads}{'file MB':>9}{'peak MB':>9}"]
    for row in rows:
        flows = f"{row['flows']:,}" if "flows" in row else "-"
        lines.append(
            f"{row['title']:28}{row['items']:>11,}{flows:>9}{row['seconds']:>9.2f}"
            f"{row['items_per_s'] / 1e6:>11.2f}{row['file_mb']:>9.0f}{row['peak_mb']:>9.0f}"
        )
    return "\n".join([*lines, *_verdicts(rows)])


def _verdicts(rows: list[Found]) -> list[str]:
    by_case = {row["case"]: row for row in rows}
    fast = by_case["decode"]["items_per_s"] >= DECODE_AIM
    lines = [f"aim: decode {DECODE_AIM / 1e6:.0f} M records/s: {_verdict(fast)}"]
    for case, writer in WRITERS.items():
        if writer.aim_s is not None:
            lines.append(
                f"aim: {writer.title}, {AIM_SLICES:,} slices in {writer.aim_s:.0f} s, "
                f"below {MEMORY_AIM_MB} MB: {_writing_verdict(by_case[case], writer.aim_s)}"
            )
    if "orjson" in by_case:
        times = by_case["chrome"]["items_per_s"] / by_case["orjson"]["items_per_s"]
        verdict = _verdict(times >= ORJSON_AIM)
        lines.append(f"aim: Chrome JSON {ORJSON_AIM:g} times orjson: {times:.1f}, {verdict}")
    return lines


def _writing_verdict(row: Found, aim_s: float) -> str:
    if row["items"] < 0.99 * AIM_SLICES:
        return "not judged, too few slices"
    return _verdict(row["seconds"] < aim_s and row["peak_mb"] < MEMORY_AIM_MB)


def _verdict(met: bool) -> str:
    return "met" if met else "missed"


if __name__ == "__main__":
    sys.exit(main())
