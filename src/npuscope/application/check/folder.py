"""What a folder holds: build files and the boards that they build for, with the networks, linker
script, sources and images of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import SOURCE, FileKind, read_text
from npuscope.errors import FileError, NpuscopeError
from npuscope.program.network_c.read_head import is_network_c

DK, NUCLEO = "stm32n6570-dk", "nucleo-n657x0-q"
_MOST_FILES = 50_000
_BUILD_NAMES = ("makefile", "cmakelists.txt")
_PROJECT_ENDINGS = (".ewp", ".project", ".cproject")
# What others wrote: drivers, libraries, and the boot loader, which is another program.
_FOREIGN = re.compile(
    r"(^|/)(drivers|middlewares|lib|libs|stm32cube_fw\w*|cmsis|third_party|fsbl|st_ai_ws|"
    r"st_ai_output|build|extmemloader|\.git)(/|$)",
    re.IGNORECASE,
)
_DK_WORD = re.compile(r"(?<![a-z])dk(?![a-z])")
_MENTION = re.compile(r"[\w$()./*-]{1,300}\.(?:c|ld)\b")
_OPTION = re.compile(r"(?<![\w-])-D\s?(\w+)(?:=([^\s\\]+))?")
_CONDITION = re.compile(r"^\s*(ifeq|ifneq|else|endif|ifdef|ifndef)\b(.*)$")


class BuildTarget(Struct, frozen=True):
    """What one build file makes for one board."""

    board: str
    build_file: str
    networks: tuple[Path, ...]
    linkers: tuple[Path, ...]
    sources: tuple[Path, ...]
    options: tuple[tuple[str, str], ...]


class AppFolder(Struct, frozen=True):
    root: Path
    files: tuple[Path, ...]
    networks: tuple[Path, ...]
    targets: tuple[BuildTarget, ...]

    def shown(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def read_folder(root: str | Path) -> AppFolder:
    root = Path(root)
    if not root.is_dir():
        raise FileError("is not a folder", where=str(root), hint="give an application's folder")
    paths: list[Path] = []
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in (".git", "node_modules"))
        paths += [Path(place) / name for name in sorted(names)]
        if len(paths) > _MOST_FILES:
            raise FileError(f"holds more than {_MOST_FILES:,} files", where=str(root))
    files = tuple(paths)
    networks = tuple(f for f in files if f.suffix == ".c" and _is_network(f))
    bare = AppFolder(root, files, networks, ())
    targets = [t for build in _build_files(bare) for t in _targets(bare, build)]
    if not targets:
        targets = [t for t in _without_build_file(bare) if t.networks or t.linkers]
    if not networks and not targets:
        hint = "expected generated networks (network.c), a linker script or a Makefile in it"
        raise FileError("holds no application", where=str(root), hint=hint)
    return AppFolder(root, files, networks, tuple(targets))


def _is_network(path: Path) -> bool:
    try:
        return path.stat().st_size > 4096 and is_network_c(path)
    except (NpuscopeError, OSError):
        return False


def boards_of(path: str) -> tuple[str, ...]:
    """Boards that a path names; both where it names none."""
    lower = path.lower()
    if "nucleo" in lower:
        return (NUCLEO,)
    return (DK,) if _DK_WORD.search(lower) else (DK, NUCLEO)


def _build_files(folder: AppFolder) -> list[tuple[Path, str]]:
    """Those that name a network: makefiles, else projects of an IDE."""
    for is_one in (
        lambda f: f.name.lower() in _BUILD_NAMES or f.suffix == ".mk",
        lambda f: f.name in _PROJECT_ENDINGS or f.suffix in _PROJECT_ENDINGS,
    ):
        files = [f for f in folder.files if is_one(f) and not _is_foreign(folder, f)]
        texts = [(f, readable_text(f, SOURCE)) for f in files]
        naming = [(f, t) for f, t in texts if any(n.name in t for n in folder.networks)]
        if naming:
            return naming
    return []


def _is_foreign(folder: AppFolder, path: Path) -> bool:
    return bool(_FOREIGN.search(path.parent.relative_to(folder.root).as_posix()))


def readable_text(path: Path, kind: FileKind) -> str:
    """Nothing of a file that is too large, or that cannot be opened."""
    try:
        return read_text(path, kind, errors="replace")
    except NpuscopeError:
        return ""


def _targets(folder: AppFolder, build: tuple[Path, str]) -> Iterator[BuildTarget]:
    path, text = build
    boards_in_path = boards_of(folder.shown(path))
    # A file that names no board builds for the other one only if it knows of it.
    knows = any(
        match and "nucleo" in match[2].lower() for match in map(_CONDITION.match, text.split("\n"))
    )
    boards = boards_in_path if len(boards_in_path) == 1 or knows else (DK,)
    for board in boards:
        own = _for_board(text, board)
        mentions = [m.lstrip("./") for m in _MENTION.findall(own)]
        networks = _chosen(folder, folder.networks, mentions, board, path.parent)
        names_script = any(mention.endswith(".ld") for mention in mentions)
        scripts = [f for f in folder.files if f.suffix == ".ld"]
        linkers = _chosen(folder, scripts, mentions, board, path.parent)
        yield BuildTarget(
            board,
            folder.shown(path),
            networks,
            linkers if linkers or names_script else _linkers(folder, board),
            tuple(_sources(folder, board, (path.parent, *(n.parent for n in networks)))),
            tuple((name, value) for name, value in _OPTION.findall(own)),
        )


def _for_board(text: str, board: str) -> str:
    """The lines of a makefile that its conditions on the board leave."""
    lines: list[str] = []
    open_: list[bool | None] = []  # None: not about the board
    for line in text.replace("\\\n", " ").split("\n"):
        match = _CONDITION.match(line)
        if match is None:
            if all(value is not False for value in open_):
                lines.append(line)
        elif match[1] == "endif":
            open_ = open_[:-1]
        elif match[1] == "else":
            value = open_.pop() if open_ else None
            open_.append(None if value is None else not value)
        else:
            open_.append(_about_board(match[1], match[2].lower(), board))
    return "\n".join(lines)


def _about_board(word: str, condition: str, board: str) -> bool | None:
    if "nucleo" not in condition and not _DK_WORD.search(condition):
        return None
    nucleo = "nucleo" in condition
    if re.search(r",\s*0\s*\)", condition):
        nucleo = not nucleo
    holds = nucleo == (board == NUCLEO)
    return not holds if word == "ifneq" else holds


def _chosen(
    folder: AppFolder, files: Sequence[Path], mentions: Sequence[str], board: str, home: Path
) -> tuple[Path, ...]:
    """Files that a build file names, nearest first; one of the board before one of any board."""
    fitting = [f for f in files if board in boards_of(folder.shown(f))]
    best: dict[str, Path] = {}
    for file in fitting:
        # Of a path with variables, what is known behind them.
        tails = [mention.rpartition(")/")[2].replace("../", "").lstrip("/")
            for mention in mentions if Path(mention).name == file.name]  # fmt: skip
        if not any(f"/{folder.shown(file)}".endswith(f"/{tail}") for tail in tails):
            continue
        other = best.get(file.name)
        if other is None or _nearness(folder, file, home) > _nearness(folder, other, home):
            best[file.name] = file
    return tuple(best.values())


def _nearness(folder: AppFolder, file: Path, home: Path) -> tuple[bool, int, bool]:
    specific = len(boards_of(folder.shown(file))) == 1
    shared = len(os.path.commonpath([file, home]))
    return specific, shared, not _is_foreign(folder, file)


def _linkers(folder: AppFolder, board: str) -> tuple[Path, ...]:
    """Scripts that no build file names: one alone, or one for this board alone."""
    scripts = [
        f for f in folder.files
        if f.suffix == ".ld" and not _is_foreign(folder, f) and "fsbl" not in f.name.lower()
        and board in boards_of(folder.shown(f))
    ]  # fmt: skip
    own = [f for f in scripts if len(boards_of(folder.shown(f))) == 1]
    candidates = own or scripts
    return tuple(candidates) if len(candidates) == 1 else ()


def _sources(folder: AppFolder, board: str, homes: Sequence[Path]) -> Iterator[Path]:
    """The application's own sources: generated networks and libraries are left out."""
    networks = set(folder.networks)
    inside = [f for f in folder.files if f.suffix in (".c", ".h") and f not in networks]
    near = [f for f in inside if any(f.is_relative_to(home) for home in homes)]
    for file in near or inside:
        big = file.stat().st_size > 1_000_000
        if not big and not _is_foreign(folder, file) and board in boards_of(folder.shown(file)):
            yield file


def _without_build_file(folder: AppFolder) -> Iterator[BuildTarget]:
    """One target: the board that paths name, the first network of each name."""
    boards = {board for f in folder.files for board in boards_of(folder.shown(f))[:1]}
    for board in sorted(boards & {DK, NUCLEO}, reverse=True)[:1]:
        networks: dict[str, Path] = {}
        for file in folder.networks:
            if board in boards_of(folder.shown(file)):
                networks.setdefault(file.name, file)
        sources = tuple(_sources(folder, board, (folder.root,)))
        yield BuildTarget(board, "", tuple(networks.values()), _linkers(folder, board), sources, ())
