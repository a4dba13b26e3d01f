"""A network.c may come from anywhere: what it may pull in or do to the compiler is looked at first.

Compiling does not run it, but assembler text and includes could read any file of this machine
into the image. So the source and the headers of its own folder are checked twice: as they are
written, for files; and after the preprocessor, for words that macros put together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import read_head
from npuscope.errors import FileError
from npuscope.text import safe_terminal

# --- C text after a compiler's first steps: lines joined, comments removed, strings known ---

_TRIGRAPH = re.compile(rb"\?\?[=/'()!<>-]")
_RAW_STRING = re.compile(r'(?<![A-Za-z0-9_])(?:u8|[uUL])?R"')
_SPLICE = re.compile(r"\\[ \t\v\f]*\n")
# A comment, a string, a character: the one that starts first decides how the rest is read.
_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<open>/\*)
    |(?P<text>"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z)|'(?:[^'\\\n]|\\.)*(?:'|(?=\n)|\Z))""",
    re.DOTALL | re.VERBOSE,
)
_STRING = re.compile(r""""(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?""")
_HINT = "write it in plain C, one statement per line"


def code_lines(data: bytes, where: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line, without comments; a joined line has its first number.

    What compilers read differently from one another is refused, so that no compiler can see
    other code than the one that is checked.
    """
    # First, because the steps below use NUL and \x01 as marks.
    for place, what in (
        (data.find(b"\x00"), "a zero byte"),
        (data.find(b"\x01"), "a control byte"),
        (_first_match(_TRIGRAPH, data), "a trigraph"),
        (_first_match(re.compile(rb"\r(?!\n)"), data), "a lone carriage return"),
    ):
        if place >= 0:
            row = 1 + data.count(b"\n", 0, place)
            raise FileError(
                f"{what} in C source", where=f"{safe_terminal(where)}:{row}", hint=_HINT
            )
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n")
    joined = _SPLICE.sub(lambda match: "\x00" * match[0].count("\n"), text)
    number = 1
    for line in _uncommented(joined, where).split("\n"):
        # NUL marks a line that was joined: it keeps the line count right and still joins the words.
        yield number, line.replace("\x00", "").replace("\x01", " ")
        number += 1 + line.count("\x00") + line.count("\x01")


def bare_lines(text: str) -> Iterator[str]:
    """Lines of preprocessed text, which has neither comments nor joined lines any more."""
    yield from text.replace("\r\n", "\n").split("\n")


def strings_blanked(line: str) -> str:
    """The line with nothing between its quotes."""
    return _STRING.sub('""', line)


def _uncommented(text: str, where: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match.lastgroup == "open":
            line = 1 + text.count("\n", 0, match.start())
            raise FileError("a comment does not end", where=f"{safe_terminal(where)}:{line}")
        if match.lastgroup == "text":
            return match[0]
        # Comments count as a space; \x01 stands for a line inside one.
        return " " + "\x01" * (match[0].count("\n") + match[0].count("\x00"))

    cleaned = _TOKEN.sub(replaced, text)
    raw = _RAW_STRING.search(cleaned)
    if raw is not None:
        line = 1 + cleaned.count("\n", 0, raw.start())
        raise FileError("raw strings are not allowed", where=f"{where}:{line}", hint=_HINT)
    return cleaned


def _first_match(pattern: re.Pattern[bytes], data: bytes) -> int:
    match = pattern.search(data)
    return -1 if match is None else match.start()


LARGEST_BYTES = 64 << 20
_DIRECTIVE = re.compile(r"\s*(?:#|%:)\s*(\w*)(.*)", re.DOTALL)
_DIRECTIVES = "define elif else endif error if ifdef ifndef include line pragma undef warning"
_INCLUDE = re.compile(r'\s*(?:"([^"]*)"|<([^>]*)>)\s*')
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_PRAGMA = re.compile(r"\s*(?:once|GCC\s+diagnostic\b.*|clang\s+diagnostic\b.*|pack\b.*)\s*")
_LINE_MARK = re.compile(r'\s*#\s*(?:line\s+)?(\d+)\s+"((?:[^"\\]|\\.)*)".*')
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
# Word -> what it would do. Spellings with underscores are the same word.
_FORBIDDEN = {
    "asm": "assembler text could read any file into the image",
    "constructor": "it would run before the network is called",
    "destructor": "nothing calls it in an image",
    "_Pragma": "it changes how the rest is compiled",
    "has_include": "it looks for files of this machine",
    "has_include_next": "it looks for files of this machine",
    "has_embed": "it looks for files of this machine",
}
# Attributes whose text reaches the assembler as it is.
_NAMING = re.compile(r"\b_*(?:section|alias|weakref|ifunc|symver|target)_*\s*\(([^)]*)\)")
_PLAIN_STRING = re.compile(r'(?:\s*"[A-Za-z0-9_.$+,-]*"\s*)*')
_SOURCE_HINT = "only a network.c as a network compiler writes it is packaged"


class ForeignSource(Struct, frozen=True):
    """A checked source: its text, and the headers of its folder that it includes."""

    name: str
    files: dict[str, bytes]

    @property
    def text(self) -> str:
        return self.files[self.name].decode(errors="replace")

    def write(self, folder: Path) -> Path:
        """What was checked is what gets compiled, whatever happens to the original."""
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        return folder / self.name


def read_source(path: Path, headers: frozenset[str]) -> ForeignSource:
    """Read a source and what it includes; `known` are the headers that we bring."""
    files: dict[str, bytes] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        room = LARGEST_BYTES - sum(map(len, files.values()))
        try:
            outside = file.resolve().parent != file.parent.resolve()
            if outside or not file.is_file():
                raise FileError(
                    "is not a file of the network's own folder",
                    where=safe_terminal(str(file)),
                    hint="copy the header there instead of linking it",
                )
        except OSError as error:
            raise FileError(f"cannot be read: {error.strerror}", where=str(file)) from None
        data = read_head(file, room + 1)
        if len(data) > room:
            raise FileError(f"is larger than {LARGEST_BYTES >> 20} MiB", where=str(file))
        files[file.name] = data
        includes = [
            name for name in _includes(file, files[file.name], headers) if name not in headers
        ]
        waiting += [path.parent / name for name in dict.fromkeys(includes) if name not in files]
        waiting = list(dict.fromkeys(waiting))
    return ForeignSource(path.name, files)


def check_preprocessed(text: str, name: str) -> None:
    """Words that only exist after macros have been replaced."""
    place, number = name, 0
    for line in bare_lines(text):
        mark = _LINE_MARK.fullmatch(line)
        if mark is not None:
            place, number = Path(mark[2]).name, int(mark[1]) - 1
            continue
        number += 1
        _check_line(line, f"{safe_terminal(place)}:{number}")
    # Searches the whole text: an attribute may span lines.
    where = safe_terminal(name)
    for arguments in _NAMING.findall(text):
        if '"' in arguments and not _PLAIN_STRING.fullmatch(arguments):
            raise _refused("a name of a section or symbol is not a plain one", where)


def _includes(path: Path, data: bytes, headers: frozenset[str]) -> Iterator[str]:
    """Check every line; give the names that are included."""
    for number, line in code_lines(data, str(path)):
        where = f"{safe_terminal(str(path))}:{number}"
        _check_line(line, where)
        match = _DIRECTIVE.fullmatch(line)
        if match is not None and match[1] == "include":
            yield _included(match[2], path, headers, where)


def _check_line(line: str, where: str) -> None:
    directive = _DIRECTIVE.fullmatch(line)
    if directive is not None and (directive[1] or directive[2].strip()):
        _check_directive(directive[1], directive[2], where)
    for word in _WORD.findall(strings_blanked(line)):
        reason = _FORBIDDEN.get(word) or _FORBIDDEN.get(word.strip("_"))
        if reason:
            raise _refused(f"'{safe_terminal(word)}' is not allowed in a network: {reason}", where)


def _check_directive(word: str, rest: str, where: str) -> None:
    if word not in _DIRECTIVES.split():
        directive = safe_terminal(word or rest.strip())[:40]
        raise _refused(f"#{directive} is not allowed in a network", where)
    if word == "pragma" and not _PRAGMA.fullmatch(rest):
        directive = safe_terminal(rest.strip())[:40]
        raise _refused(f"'#pragma {directive}' is not allowed in a network", where)


def _included(rest: str, path: Path, headers: frozenset[str], where: str) -> str:
    match = _INCLUDE.fullmatch(rest)
    if match is None:
        raise _refused("an #include does not name its file", where)
    name = match[1] or match[2] or ""
    if not _PLAIN_NAME.fullmatch(name):
        raise _refused(
            f"#include of '{safe_terminal(name)}': only files of the network's own folder", where
        )
    if name not in headers and not (path.parent / name).is_file():
        raise FileError(
            f"#include of '{name}', which is neither a header of the runtime nor beside the source",
            where=where,
            hint=f"put {name} into {path.parent}",
        )
    return name


def _refused(message: str, where: str) -> FileError:
    return FileError(message, where=where, hint=_SOURCE_HINT)
