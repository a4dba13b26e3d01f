"""The check of a folder, top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from npuscope.application.check.c_source import (
    Array,
    Body,
    arrays,
    bodies,
    compiled,
    every_branch,
    macros_of,
    plain,
)
from npuscope.application.check.cache_rules import cache_findings
from npuscope.application.check.flash_rules import flash_findings
from npuscope.application.check.folder import (
    AppFolder,
    BuildTarget,
    read_folder,
    readable_text,
)
from npuscope.application.check.memory_rules import memory_findings
from npuscope.application.check.model import (
    AppFinding,
    AppSeverity,
    CheckedNetwork,
    CheckedTarget,
    FolderCheck,
    secure_range,
)
from npuscope.application.check.network import checked_network
from npuscope.application.linker import LinkerLayout, read_linker_file
from npuscope.bounded_file import SOURCE
from npuscope.errors import NpuscopeError
from npuscope.text import safe_terminal


class _Sources:
    """Arrays and functions of a target's sources."""

    def __init__(self, target: BuildTarget, folder: AppFolder) -> None:
        macros = macros_of(target.options)
        # Headers first: what they define decides which lines of the sources are compiled.
        ordered = sorted(target.sources, key=lambda path: path.suffix != ".h")
        texts: list[tuple[Path, str]] = []
        for path in ordered:
            text = plain(readable_text(path, SOURCE))
            texts.append((path, text))
            if path.suffix == ".h":
                compiled(text, macros)
        self.arrays: list[Array] = []
        self.functions: list[Body] = []
        self.left_out: list[Body] = []  # in branches that this build leaves out
        for path, text in texts:
            own = dict(macros)
            body = compiled(text, own)
            name = folder.shown(path)
            if path.suffix == ".c":
                self.arrays += arrays(body, name, own)
                self.functions += bodies(body, name)
                compiled_names = {function.name for function in self.functions}
                rest = bodies(every_branch(text), name)
                self.left_out += [one for one in rest if one.name not in compiled_names]


def check_folder(root: str | Path) -> FolderCheck:
    folder = read_folder(root)
    results = [_target(folder, target) for target in folder.targets]
    findings = [finding for _, rows, _ in results for finding in rows]
    compiled_files = {file for target in folder.targets for file in target.networks}
    others = [file for file in folder.networks if file not in compiled_files]
    if others and compiled_files:
        names = ", ".join(safe_terminal(folder.shown(file)) for file in others[:4])
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        text = f"networks that no build file compiles were left out: {names}{more}"
        findings.append(AppFinding("not-compiled", AppSeverity.NOTE, "", text))
    unread = dict.fromkeys(text for _, _, texts in results for text in texts)
    order = list(AppSeverity)
    findings.sort(key=lambda finding: order.index(finding.severity))
    targets = tuple(target for target, _, _ in results)
    return FolderCheck(str(root), targets, tuple(dict.fromkeys(findings)), tuple(unread))


def _target(
    folder: AppFolder, target: BuildTarget
) -> tuple[CheckedTarget, list[AppFinding], list[str]]:
    unread: list[str] = []
    networks: list[CheckedNetwork] = []
    for path in target.networks:
        try:
            networks.append(checked_network(path, folder.shown(path)))
        except NpuscopeError as error:
            unread.append(f"{folder.shown(path)}: {error.message}")
    layout = LinkerLayout()
    if not target.linkers:
        unread.append(f"{target.board}: no linker script was recognised as the one in use")
    for script in target.linkers[:1]:
        try:
            layout = read_linker_file(script)
        except NpuscopeError as error:
            unread.append(f"{folder.shown(script)}: {error.message}")
    regions = tuple(secure_range("linker", r.name, r.address, r.size_bytes) for r in layout.regions)
    sources = _Sources(target, folder)
    placed, sizes = _by_section(sources.arrays, unread)
    findings = [
        *memory_findings(target.board, networks, regions),
        *_section_findings(target.board, placed, sizes, layout),
        *cache_findings(target.board, sources.functions, sources.arrays, sources.left_out),
        *flash_findings(folder, target.board, networks),
    ]
    checked = CheckedTarget(target.board, target.build_file, tuple(networks), regions, sizes)
    return checked, findings, unread


def _by_section(rows: Sequence[Array], unread: list[str]) -> tuple[list[Array], dict[str, int]]:
    """Arrays with a section of their own, and the bytes of each section."""
    placed = [array for array in rows if array.section]
    sizes: dict[str, int] = {}
    for array in placed:
        if array.size_bytes is None:
            unread.append(f"{array.file}: the size of '{array.name}' is not known")
            continue
        start = -(-sizes.get(array.section, 0) // array.align) * array.align
        sizes[array.section] = start + array.size_bytes
    return placed, sizes


def _section_findings(
    board: str, placed: Sequence[Array], sizes: dict[str, int], layout: LinkerLayout
) -> Iterator[AppFinding]:
    """Regions that their arrays overfill, and arrays in sections that no region takes."""
    for region in layout.regions:
        names = [s for s in layout.sections if s.region == region.name]
        total = sum(size for name, size in sizes.items() if any(s.takes(name) for s in names))
        if total > region.size_bytes:
            over = total - region.size_bytes
            text = f"buffers of region {region.name} have {total:,} bytes, {over:,} more than fit"
            yield AppFinding("region-full", AppSeverity.ERROR, board, text)
    if not layout.sections:
        return
    for array in placed:
        if array.section.startswith(".") and not any(
            s.takes(array.section) for s in layout.sections
        ):
            name, section = safe_terminal(array.name), safe_terminal(array.section)
            text = (
                f"'{name}' is put into {section}, a section that the linker script does not "
                "place: the linker chooses where it lies"
            )
            yield AppFinding("orphan-section", AppSeverity.LATENT, board, text, (array.file,))
