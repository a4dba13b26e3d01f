"""Every build below a folder that is there as network.c and as c_info.json: do both take as long?

    python benchmarks/two_readings.py FOLDER [--apart 2]

A c_info.json describes the source of its name beside it, or in a folder `code` below. Sources that
differ in comments and white space alone are one. Prints a line a build: the time from c_info.json
against that from network.c, both split into NPU, control and CPU; then how many are within
`--apart` per cent, and the mean. `npuscope compare A B` lists a difference by epoch.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from vendor_builds import code, is_network

import npuscope
from npuscope.errors import NpuscopeError
from npuscope.profiling.model import Profile

_ENDING, _WORKSPACE = "c_info.json", "neural_art__"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--apart", type=float, default=2, help="per cent (2)")
    options = parser.parse_args()
    shares = []
    for report, source in _pairs(options.folder):
        name = str(report.relative_to(options.folder))
        try:
            ours, theirs = npuscope.estimate(report), npuscope.estimate(source)
        except NpuscopeError as error:
            print(f"      -  {name}: {error.message}")
            continue
        shares.append(100 * (ours.total_ms / theirs.total_ms - 1))
        print(f"{shares[-1]:+6.1f}%  {_parts(ours)}  {_parts(theirs)}  {name}", flush=True)
    near = sum(abs(share) <= options.apart for share in shares)
    if shares:
        average = mean(abs(share) for share in shares)
        print(f"{near} of {len(shares)} within {options.apart:g} %, mean {average:.1f} %")
    return 0


def _pairs(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Report and source; of the two reports that the tools write, the one beside the source."""
    seen: set[str] = set()
    for report in sorted(folder.rglob(f"*{_ENDING}")):
        stem = report.name.removesuffix(_ENDING).rstrip("_")
        stem = stem or report.parent.name.removeprefix(_WORKSPACE)
        places = (report.parent, report.parent / "code")
        sources = (place / f"{stem}.c" for place in places)
        source = next((file for file in sources if file.is_file() and is_network(file)), None)
        if source is None:
            continue
        text = code(source.read_text(encoding="utf-8", errors="replace"))
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in seen:
            seen.add(digest)
            yield report, source


def _parts(profile: Profile) -> str:
    time = profile.time
    parts = time.npu_core_ms, time.control_ms, time.software_ms + time.hybrid_ms
    return f"{profile.total_ms:9.3f} ms [{' '.join(f'{part:8.3f}' for part in parts)}]"


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    raise SystemExit(main())
