"""Foreign names made safe for the places they are written to."""

from __future__ import annotations

import re


def safe_terminal(name: str) -> str:
    """One line of printable text: control characters become visible escapes.

    Format characters (text direction, zero width) and lone surrogates are escaped too, because
    they can make a terminal show something else than what is in the file.
    """
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else _escape(c) for c in name)


def without_middle(text: str, most: int) -> str:
    """At most so many characters; of a longer text the middle goes."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def safe_lines(text: str) -> str:
    """A whole answer: its own line ends and tabs stay, nothing else moves a cursor.

    Names in it were made safe one by one; this is the net below, for what nobody thought of.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def c_identifier(name: str) -> str:
    """A C name: letters, digits and underscores, neither empty nor starting with a digit.

    Different names may give the same: callers add a number where names must differ.
    """
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[:_IDENTIFIER_LENGTH]
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


def c_comment(name: str) -> str:
    """Text inside /* */: one line of ASCII that neither ends nor opens a comment."""
    line = "".join(c if " " <= c <= "~" else _escape(c) for c in name)
    # A backslash would join lines if it came last; a question mark may start a trigraph for one.
    line = line.replace("??", "?\\x3f")
    return line.replace("*/", "\\x2a/").replace("/*", "/\\x2a")


def c_string(name: str) -> str:
    """A C string literal, quotes included, of the name's UTF-8 bytes.

    Octal escapes end after three digits, so that a digit behind one stays a digit; a question
    mark is escaped because two of them start a trigraph.
    """
    data = as_utf8(name).encode("utf-8")
    return '"' + "".join(_c_byte(byte) for byte in data) + '"'


def _c_byte(byte: int) -> str:
    char = chr(byte)
    if char in '"\\?':
        return f"\\{char}"
    return char if " " <= char <= "~" else f"\\{byte:03o}"


_C_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.S)
_C_LETTERS = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}


def from_c_string(literal: str) -> str:
    """What a C string literal stands for, quotes included, as `c_string` writes it."""
    inner = literal[1:-1]
    if "\\" not in inner:
        return inner

    def byte(escape: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = escape.groups()
        if letter is not None:
            return _C_LETTERS.get(letter, letter)
        return bytes([int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)])

    return _C_ESCAPE.sub(byte, inner.encode("utf-8")).decode("utf-8", "backslashreplace")


def as_utf8(name: str) -> str:
    """The name as a file of UTF-8 holds it: a lone surrogate becomes a visible escape."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def dot_string(name: str) -> str:
    """A Graphviz string, quotes included; `\\n` of the name is shown, not obeyed."""
    line = safe_terminal(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{line}"'


def file_name(name: str) -> str:
    """A plain file name without folders: other characters become underscores.

    It starts with neither a dot (a hidden file) nor a dash (an option of whatever reads it next).
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    if len(plain) > _FILE_NAME_LENGTH:  # the middle of a long name goes, its ending stays
        half = _FILE_NAME_LENGTH // 2
        plain = plain[:half] + plain[-half:]
    return plain if plain and plain[0] not in ".-" and plain.strip("._-") else f"_{plain}"


# Compilers tell apart at least 63 characters of a name; callers add prefixes.
_IDENTIFIER_LENGTH = 40
# File systems take 255 bytes; callers add endings and temporary prefixes.
_FILE_NAME_LENGTH = 160


def csv_cell(name: str) -> str:
    """A foreign name as one cell that no spreadsheet takes for a formula.

    A quote at the start would swallow the cells and lines that follow.
    """
    plain = safe_terminal(name).replace(",", ";").strip()
    return f"'{plain}" if plain.startswith(("=", "+", "-", "@", '"')) else plain


def html_text(name: str) -> str:
    """Text between tags or in a quoted attribute of HTML: one line that opens no tag.

    Control and direction characters are shown as escapes, as on a terminal.
    """
    from html import escape

    return escape(safe_terminal(name), quote=True)


def xml_text(name: str) -> str:
    """Text between tags or in a quoted attribute of XML 1.0, which knows no control characters."""
    from html import escape

    return escape(safe_terminal(name), quote=True)


def link_free(name: str) -> str:
    """Text for viewers that take braces for placeholders and `[a](b)` for a link (SARIF)."""
    return safe_terminal(name).replace("](", "] (").replace("{", "{{").replace("}", "}}")
