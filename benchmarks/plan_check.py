"""`plan --check` on public applications: bytes, false alarms, real faults, and planted ones.

    python benchmarks/plan_check.py --applications DIR [--planted 200]

DIR holds public STM32N6 applications, each in a folder OWNER+NAME as it was published (large files
that a copy lacks as Git LFS pointers). Their bytes are compared with those that the sources give by
hand, their findings with the list of real ones below. Then faults are planted, one at a time, into
copies of what the check reads: ranges moved onto others, past the end of a chip, off their line;
regions grown; buffers multiplied; a clean taken away; weights deleted. Each must be an error that
was not there before.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from npuscope.application.check.folder import DK, NUCLEO, read_folder
from npuscope.application.check.model import AppSeverity, FolderCheck
from npuscope.application.check.run import check_folder

ST = "STMicroelectronics+"
HAND, FACE = f"{ST}x-cube-n6-ai-hand-landmarks", f"{ST}x-cube-n6-ai-face-landmarks"
REID = f"{ST}STM32N6-GettingStarted-ReID"
PELE = "PeleAB+STM32N6-FaceRecognition"
FORK = "profirst30+STM32N6570-FaceRecognition-FaceDetection"
PEOPLE = f"{ST}x-cube-n6-ai-people-detection-tracking"
DETECTION = f"{ST}STM32N6-GettingStarted-ObjectDetection"
SEVEN = (HAND, FACE, REID, PELE, FORK, PEOPLE, DETECTION)
# Faults that reading the sources shows: rule and board. Everything else is a false alarm.
REAL = {
    (FACE, "invalidate-without-clean", NUCLEO),
    (REID, "orphan-section", NUCLEO),
    (PELE, "flash-pools", DK),
    (PELE, "invalidate-without-clean", DK),
    (PELE, "weights-not-flashed", DK),
    (FORK, "flash-pools", DK),
    (FORK, "invalidate-without-clean", DK),
    (FORK, "weights-not-flashed", DK),
    (PEOPLE, "pool-past-chip", NUCLEO),
    (DETECTION, "pool-past-chip", NUCLEO),
}
# Used RAM by network, from its lowest to its highest byte, and bytes of buffers in external RAM.
RAM = {
    (HAND, "palm_detector"): 1_179_648,
    (HAND, "hand_landmark"): 1_103_872,
    (FACE, "face_detector"): 458_752,
    (FACE, "face_landmark"): 737_280,
}
PSRAM = {HAND: 8_669_184, FACE: 6_912_000, FORK: 2_533_120, PEOPLE: 5_990_400}
ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{8}")


def used_ram(check: FolderCheck, network: str) -> int:
    target = next(t for t in check.targets if t.board == DK)
    one = next(n for n in target.networks if n.name == network)
    spans = [s for s in one.used if s.start >> 28 == 3]
    return max(s.end for s in spans) - min(s.start for s in spans)


def compared(root: Path) -> int:
    """Bytes and findings of the seven; the number of differences."""
    checks = {name: check_folder(root / name) for name in SEVEN}
    wrong = 0
    for (name, network), size in RAM.items():
        got = used_ram(checks[name], network)
        wrong += got != size
        print(f"{network}: {got:,} bytes of RAM, by hand {size:,}")
    for name, size in PSRAM.items():
        target = next(t for t in checks[name].targets if t.board == DK)
        got = target.buffers_bytes.get(".psram_bss", 0)
        wrong += got != size
        print(f"{name}: {got:,} bytes of buffers in PSRAM, by hand {size:,}")
    told = {
        (name, f.rule, f.board)
        for name, check in checks.items()
        for f in check.findings
        if f.severity is not AppSeverity.NOTE
    }
    print(f"real faults found: {len(told & REAL)} of {len(REAL)}; false alarms: {len(told - REAL)}")
    for row in sorted(told ^ REAL):
        print("  ", "false alarm" if row in told else "missed", *row)
    return wrong + len(told ^ REAL)


def others(root: Path) -> None:
    """Applications that no rule was made on."""
    rest = [path for path in sorted(root.iterdir()) if path.name not in SEVEN and path.is_dir()]
    for path in rest:
        try:
            check = check_folder(path)
        except Exception as error:
            print(f"  {path.name}: {error.args[0]}")
            continue
        rows = [f for f in check.findings if f.severity is not AppSeverity.NOTE]
        rules = ", ".join(f"{f.severity.value} {f.rule}" for f in rows) or "nothing"
        print(f"  {path.name}: {rules}")


# --- Planted faults ---


def read_part(root: Path, work: Path) -> None:
    """The files that the check reads, of one application."""
    folder = read_folder(root)
    texts = {".ld", ".mk", ".h", ".sh"}
    for file in folder.files:
        wanted = (
            file.suffix in texts or file.name == "Makefile" or file.suffix in (".c", ".hex", ".bin")
        )
        if wanted and file.stat().st_size < 3_000_000 and "Middlewares" not in file.parts:
            target = work / file.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def moved(text: str, low: int, high: int, by: int, mask: int = 0) -> str:
    def new(match: re.Match[str]) -> str:
        value = int(match[0], 16)
        return f"{(value + by) & ~mask:#010x}" if low <= value < high else match[0]

    return ADDRESS.sub(new, text)


Plant = Callable[[], str]


def plants(work: Path, rng: random.Random) -> Iterator[tuple[str, Plant]]:
    """Faults that this folder can have, in random sizes, without end."""
    check = check_folder(work)
    while True:
        target = rng.choice(check.targets)
        if not target.networks or not target.regions:
            continue
        kind = rng.choice(KINDS)
        plant = kind(work, target, rng)
        if plant is not None:
            yield kind.__name__, plant


def _edit(path: Path, change: Callable[[str], str]) -> Plant:
    def apply() -> str:
        text = path.read_text(encoding="utf-8", errors="replace")
        new = change(text)
        assert new != text, path
        path.write_text(new, encoding="utf-8")
        return path.name

    return apply


def _network(work, target, rng):  # type: ignore[no-untyped-def]
    network = rng.choice(target.networks)
    return network, work / network.file


def ram_into_region(work, target, rng):  # type: ignore[no-untyped-def]
    """Activations in the linker's region, under one of the two names."""
    network, path = _network(work, target, rng)
    ram = [s for s in network.used if s.start >> 28 == 3]
    region = next((r for r in target.regions if r.start >> 28 == 3), None)
    if not ram or region is None:
        return None
    low, high = min(s.start for s in ram), 0x343C0000
    room = region.end - region.start
    by = region.start - low + rng.randrange(0, max(1, room - 1024), 1024) // 1024 * 1024
    by = by // 1024 * 1024
    mask = rng.choice((0, 1 << 28))
    low = min(p.start for p in network.pools if p.start >> 28 == 3)
    return _edit(path, lambda text: moved(text, low, high, by, mask))


def weights_onto_weights(work, target, rng):  # type: ignore[no-untyped-def]
    if len(target.networks) < 2:
        return None
    one, other = rng.sample(list(target.networks), 2)
    if not one.flash or not other.flash:
        return None
    start, goal = one.flash[0].start, other.flash[0]
    by = goal.start - start + rng.randrange(0, goal.size_bytes // 2, 64) // 64 * 64
    return _edit(work / one.file, lambda text: moved(text, start, 0x78000000, by))


def weights_past_the_chip(work, target, rng):  # type: ignore[no-untyped-def]
    network, path = _network(work, target, rng)
    if not network.flash:
        return None
    end = 0x74000000 if target.board == NUCLEO else 0x78000000
    span = network.flash[0]
    by = (end - span.start - rng.randrange(64, span.size_bytes, 64)) // 64 * 64
    return _edit(path, lambda text: moved(text, span.start, 0x78000000, by))


def off_the_line(work, target, rng):  # type: ignore[no-untyped-def]
    network, path = _network(work, target, rng)
    pool = rng.choice(network.pools)
    by = rng.choice((4, 8, 12, 16, 20))
    return _edit(path, lambda text: moved(text, pool.start, pool.start + 0x10000, by))


def region_grows(work, target, rng):  # type: ignore[no-untyped-def]
    """Over the activations, or past the end of its memory."""
    path = _linker(work, target)
    region = rng.choice(target.regions)
    size = {3: 0x3C0000, 9: 0x3000000, 7: 0x9000000}.get(region.start >> 28)
    if path is None or size is None:
        return None
    more = rng.randrange(1, 64) * 1024
    pattern = re.compile(rf"({region.what}\b[^\n]*LENGTH\s*=\s*)[^\n]+")
    return _edit(path, lambda text: pattern.sub(rf"\g<1>{(size + more) // 1024}K", text))


def region_off_the_line(work, target, rng):  # type: ignore[no-untyped-def]
    path = _linker(work, target)
    region = rng.choice(target.regions)
    new = f"{region.start + rng.choice((4, 8, 16)):#010x}"
    if path is None:
        return None
    return _edit(path, lambda text: re.sub(rf"(?i){region.start:#010x}", new, text))


def too_many_buffers(work, target, rng):  # type: ignore[no-untyped-def]
    """A buffer of more bytes than its region."""
    if ".psram_bss" not in target.buffers_bytes or target.board == NUCLEO:
        return None
    built = {p for one in read_folder(work).targets if one.board == DK for p in one.sources}
    sources = [p for p in sorted(built) if "psram" in p.read_text(errors="replace").lower()]
    sources = [p for p in sources if "nucleo" not in p.as_posix().lower()]
    attribute = '__attribute__((section(".psram_bss"))) __attribute__((aligned(32)))'
    count = rng.randrange(17, 64)
    line = f"\n{attribute} static uint8_t planted[{count}][1024 * 1024];\n"
    path = next((p for p in sources if p.parent.name == "Src"), None)
    return _edit(path, lambda text: text + line) if path else None


def clean_taken_away(work, target, rng):  # type: ignore[no-untyped-def]
    """The CPU fills an input, and its lines are only invalidated."""
    path = next((p for p in work.rglob("main.c") if target.board == DK
        or "NUCLEO" in p.as_posix()), None) or next(work.rglob("app.c"), None)  # fmt: skip
    name = f"planted_{rng.randrange(1000)}"
    body = (
        f"\nstatic void {name}_run(uint8_t *{name}, const uint8_t *src, int len)\n{{\n"
        f"  memcpy({name}, src, len);\n  SCB_InvalidateDCache_by_Addr({name}, len);\n}}\n"
    )
    return _edit(path, lambda text: text + body) if path else None


def weights_deleted(work, target, rng):  # type: ignore[no-untyped-def]
    """All images and every word on how to write them."""

    def apply() -> str:
        for path in work.rglob("*"):
            if path.suffix in (".hex", ".bin", ".raw", ".sh", ".md", ".bat", ".mk"):
                path.unlink()
        for path in work.rglob("Makefile"):
            text = path.read_text(encoding="utf-8", errors="replace")
            path.write_text(re.sub(r"[^\n]*_data[^\n]*", "", text), encoding="utf-8")
        return "images"

    return apply if any(n.flash for n in target.networks) else None


def _linker(work: Path, target) -> Path | None:  # type: ignore[no-untyped-def]
    for one in read_folder(work).targets:
        if (one.board, one.build_file) == (target.board, target.build_file) and one.linkers:
            return one.linkers[0]
    return None


KINDS = (
    ram_into_region, weights_onto_weights, weights_past_the_chip, off_the_line, region_grows,
    region_off_the_line, too_many_buffers, clean_taken_away, weights_deleted,
)  # fmt: skip


def errors(check: FolderCheck) -> set[tuple[str, str, str]]:
    rows = check.of(AppSeverity.ERROR)
    return {(f.rule, f.board, f.message) for f in rows}


def planted(root: Path, count: int, seed: int) -> int:
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    made: Counter[str] = Counter()
    each = -(-count // len(SEVEN))
    for name in SEVEN:
        with tempfile.TemporaryDirectory() as place:
            clean = Path(place) / "clean"
            read_part(root / name, clean)
            before = errors(check_folder(clean))
            source = plants(clean, rng)
            for _ in range(min(each, count - sum(made.values()))):
                work = Path(place) / "work"
                shutil.rmtree(work, ignore_errors=True)
                kind, plant = next(source)
                shutil.copytree(clean, Path(place) / "kept")
                what = plant()
                after = errors(check_folder(clean))
                made[kind] += 1
                if after - before:
                    found[kind] += 1
                else:
                    print(f"  missed: {kind} in {name}, {what}")
                shutil.rmtree(clean)
                (Path(place) / "kept").rename(clean)
    for kind, number in made.items():
        print(f"  {kind}: {found[kind]} of {number}")
    print(f"planted faults found: {sum(found.values())} of {sum(made.values())}")
    return sum(made.values()) - sum(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=Path, required=True)
    parser.add_argument("--planted", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    wrong = compared(arguments.applications)
    print("others:")
    others(arguments.applications)
    wrong += planted(arguments.applications, arguments.planted, arguments.seed)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
