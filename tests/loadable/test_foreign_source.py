"""A foreign network.c: what could bring files of this machine into an image is refused."""

from __future__ import annotations

import pytest

from npuscope.errors import FileError
from npuscope.loadable import foreign_source
from npuscope.loadable.build_network import firmware_folder, own_headers
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.foreign_source import check_preprocessed, read_source
from npuscope.loadable.toolchain import find_toolchain, own_flags

KNOWN = frozenset({"ll_aton.h", "stdint.h"})


def read(folder, text, **others):
    for name, content in others.items():
        (folder / f"{name}.h").write_text(content)
    path = folder / "network.c"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_source(path, KNOWN)


def refusal(folder, text, **others):
    with pytest.raises(FileError) as error:
        read(folder, text, **others)
    where = error.value.where.removeprefix(f"{folder}/")
    return f"{where}: {error.value.message}"


ASM = "is not allowed in a network: assembler text could read any file into the image"
LOOKS = "is not allowed in a network: it looks for files of this machine"
REFUSED = {
    "asm": ('\nasm(".incbin \\"/etc/passwd\\"");', f"network.c:2: 'asm' {ASM}"),
    "asm_": ('void f(void) { __asm("nop"); }', f"network.c:1: '__asm' {ASM}"),
    "asm__": ('int x __asm__("y");', f"network.c:1: '__asm__' {ASM}"),
    "volatile": ("\n\n__asm__ volatile (\n", f"network.c:3: '__asm__' {ASM}"),
    "spliced": ("int a; as\\\nm(1);", f"network.c:1: 'asm' {ASM}"),
    "spliced with blanks": ("int a; as\\ \t\nm(1);", f"network.c:1: 'asm' {ASM}"),
    "spliced, DOS": (b"int a; as\\\r\nm(1);", f"network.c:1: 'asm' {ASM}"),
    "after a comment": ("/* /* */ asm(1);", f"network.c:1: 'asm' {ASM}"),
    "after a string": ('char *s = "\\"/*"; asm(1); /* */', f"network.c:1: 'asm' {ASM}"),
    "after a character": ("int q = '\"'; asm(1); //\"", f"network.c:1: 'asm' {ASM}"),
    "in a macro": ("#define A asm", f"network.c:1: 'asm' {ASM}"),
    "absolute": (
        '#include "/etc/passwd"',
        "network.c:1: #include of '/etc/passwd': only files of the network's own folder",
    ),
    "parent": (
        '#include "../secret.h"',
        "network.c:1: #include of '../secret.h': only files of the network's own folder",
    ),
    "hidden": (
        '#include ".netrc"',
        "network.c:1: #include of '.netrc': only files of the network's own folder",
    ),
    "angle": (
        "#include <stdio.h>",
        "network.c:1: #include of 'stdio.h', which is neither a header of the runtime nor beside "
        "the source",
    ),
    "by macro": ("#include NAME", "network.c:1: an #include does not name its file"),
    "include_next": (
        '#include_next "a.h"',
        "network.c:1: #include_next is not allowed in a network",
    ),
    "import": ('#import "a.h"', "network.c:1: #import is not allowed in a network"),
    "embed": ('#embed "/etc/passwd"', "network.c:1: #embed is not allowed in a network"),
    "digraph": ('%:embed "x"', "network.c:1: #embed is not allowed in a network"),
    "commented": ('/**/ # /**/ embed "x"', "network.c:1: #embed is not allowed in a network"),
    "has_include": ("#if __has_include(<a.h>)", f"network.c:1: '__has_include' {LOOKS}"),
    "has_embed": ("#if __has_embed(<a.h>)", f"network.c:1: '__has_embed' {LOOKS}"),
    "_Pragma": (
        '_Pragma("x")',
        "network.c:1: '_Pragma' is not allowed in a network: it changes how the rest is compiled",
    ),
    "pragma": (
        "#pragma GCC poison x",
        "network.c:1: '#pragma GCC poison x' is not allowed in a network",
    ),
    "pragma comment": (
        '#pragma comment(lib, "x")',
        "network.c:1: '#pragma comment(lib, \"x\")' is not allowed in a network",
    ),
    "constructor": (
        "__attribute__((constructor)) void f(void);",
        "network.c:1: 'constructor' is not allowed in a network: it would run before the network "
        "is called",
    ),
    "trigraph": ("int a; ??/\n", "network.c:1: a trigraph in C source"),
    "raw string": ('char *s = R"(x)";', "network.c:1: raw strings are not allowed"),
    "zero byte": (b"\n\n\0", "network.c:3: a zero byte in C source"),
    "carriage return": (b"\nint a;\rint b;", "network.c:2: a lone carriage return in C source"),
    "open comment": ("int a;\n/* x", "network.c:2: a comment does not end"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    text, expected = REFUSED[case]
    assert refusal(tmp_path, text) == expected


def test_lines_are_counted_through_comments_and_splices(tmp_path):
    text = "/* 1\n2 */ int a; \\\n int b; // 3 \\\n 4\nasm(1);"
    assert refusal(tmp_path, text) == f"network.c:5: 'asm' {ASM}"


def test_headers_of_the_folder_are_looked_at_too(tmp_path):
    text = '#include "blobs.h"'
    assert refusal(tmp_path, text, blobs="\nasm(1);") == f"blobs.h:2: 'asm' {ASM}"
    deep = refusal(tmp_path, text, blobs='#include "more.h"', more="asm(1);")
    assert deep == f"more.h:1: 'asm' {ASM}"


HARMLESS = """
#include "ll_aton.h"
#include <stdint.h>
#  include "blobs.h" /* its own */
#pragma once
#pragma GCC diagnostic ignored "-Wall"
#pragma pack(push, 1)
/* asm(".incbin") #include "/etc/passwd" */
// __asm__ \\
   asm(1)
const char *text = "asm(\\"x\\") #embed // /*";
int asmara, casm; char c = '\\''; char d = '"';
#if defined(X) /* once
more */ && 1
#error "asm"
#endif
"""


def test_harmless(tmp_path):
    source = read(tmp_path, HARMLESS, blobs="int blob;", other="asm(1);")
    assert set(source.files) == {"network.c", "blobs.h"}


def test_what_was_checked_is_what_is_compiled(tmp_path):
    source = read(tmp_path, '#include "blobs.h"', blobs="int blob;")
    (tmp_path / "blobs.h").write_text("asm(1);")
    work = tmp_path / "work"
    work.mkdir()
    assert source.write(work) == work / "network.c"
    assert (work / "blobs.h").read_text() == "int blob;"


def test_a_link_that_leads_out(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "secret.h").write_text("int a;")
    (tmp_path / "net" / "blobs.h").symlink_to(tmp_path / "secret.h")
    assert refusal(tmp_path / "net", '#include "blobs.h"') == (
        "blobs.h: is not a file of the network's own folder"
    )


def test_a_header_that_is_a_device(tmp_path):
    (tmp_path / "blobs.h").symlink_to("/dev/zero")
    text = refusal(tmp_path, '#include "blobs.h"')
    assert "neither a header of the runtime nor beside the source" in text


def test_circles_end(tmp_path):
    source = read(tmp_path, '#include "a.h"', a='#include "b.h"', b='#include "a.h"')
    assert set(source.files) == {"network.c", "a.h", "b.h"}


def test_size_is_limited_over_all_files(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign_source, "LARGEST_BYTES", 1 << 20)
    text = refusal(tmp_path, '#include "a.h"', a="/*" + "x" * (1 << 20) + "*/")
    assert text == "a.h: is larger than 1 MiB"


def preprocessed(tmp_path, text):
    pytest.importorskip("ziglang")
    source, output = tmp_path / "network.c", tmp_path / "plain.c"
    source.write_text(text)
    toolchain = find_toolchain(PackageOptions(cpu="cortex-m33"))
    assert toolchain.preprocess(source, output, own_flags(3)).code == 0
    return output.read_text()


def test_words_that_macros_put_together(tmp_path):
    text = preprocessed(tmp_path, "#define J(a, b) a##b\n\nvoid f(void) { J(as, m)(1); }\n")
    with pytest.raises(FileError) as error:
        check_preprocessed(text, "network.c")
    assert (error.value.where, error.value.message) == ("network.c:3", f"'asm' {ASM}")


@pytest.mark.parametrize(
    "attribute",
    [
        'section("x\\n.incbin \\"/etc/passwd\\"")',
        'section("x" "\\n.include")',
        '__section__(\n"x;y")',
        'alias("a)b")',
    ],
)
def test_names_that_assemblers_would_take_as_text(tmp_path, attribute):
    text = preprocessed(tmp_path, f"int a __attribute__(({attribute}));\n")
    with pytest.raises(FileError, match="not a plain one"):
        check_preprocessed(text, "network.c")


def test_our_own_headers_pass(tmp_path):
    names = sorted(own_headers(firmware_folder()))
    includes = "".join(f'#include "{name}"\n' for name in names if name.startswith("ll_"))
    check_preprocessed(preprocessed(tmp_path, includes), "network.c")
