"""The cross compiler: found or asked for, alone with its own files, and never without an end."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from npuscope.cache import TRIMMED, cache_folder
from npuscope.errors import FileError, InternalError, TargetError, UsageError
from npuscope.loadable import toolchain as module
from npuscope.loadable.build_network import ImageSource, firmware_folder, image_sources, own_headers
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.link import linker_script
from npuscope.loadable.pack import read_elf
from npuscope.loadable.toolchain import (
    cached,
    compile_own,
    digest,
    find_toolchain,
    own_flags,
    runtime_library,
)
from npuscope.whole_file import work_folder

CPUS = ("cortex-m33", "cortex-m55")
pytest.importorskip("ziglang")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "npuscope"


def test_cache_is_for_one_user(cache):
    assert cache_folder() == cache
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights are kept otherwise there")
def test_a_cache_that_others_may_write_is_refused(cache):
    cache.mkdir()
    cache.chmod(0o770)
    with pytest.raises(FileError, match="other users can write to it") as error:
        cache_folder()
    assert error.value.hint == f"chmod 700 {cache}"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="users are kept otherwise there")
def test_a_cache_of_somebody_else_is_refused(cache, monkeypatch):
    cache_folder()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(FileError, match="belongs to another user"):
        cache_folder()


def test_a_link_is_no_cache(cache, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="is not a folder"):
        cache_folder()


def test_a_relative_cache_variable_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "npuscope"


def in_it(folder):
    return [path for path in folder.iterdir() if path.name != TRIMMED]


def test_work_is_gone_afterwards(cache):
    with work_folder(cache_folder()) as work:
        (work / "file").write_text("x")
    assert in_it(cache) == []


def test_a_cached_file_is_made_once_and_again_if_it_is_torn(cache):
    made = []

    def make(path):
        made.append(path)
        path.write_text("object")

    first = cached(cache_folder(), "key", ".o", make)
    assert cached(cache_folder(), "key", ".o", make) == first
    assert len(made) == 1
    first.write_text("obj")
    assert cached(cache_folder(), "key", ".o", make).read_text() == "object"
    assert len(made) == 2
    assert in_it(cache) == [first]


def test_a_file_that_fails_leaves_nothing_in_the_cache(cache):
    def make(path):
        path.write_text("half")
        raise InternalError("does not compile")

    with pytest.raises(InternalError):
        cached(cache_folder(), "key", ".o", make)
    assert in_it(cache) == []


def test_digests_keep_borders():
    assert digest("ab", "c") != digest("a", "bc")


def test_unknown_names():
    with pytest.raises(UsageError, match="unknown CPU 'z80'"):
        find_toolchain(PackageOptions(cpu="z80"))
    with pytest.raises(UsageError, match="unknown compiler 'icc'"):
        find_toolchain(PackageOptions(toolchain="icc"))


def test_missing_zig_tells_how_to_get_it(cache, monkeypatch):
    monkeypatch.setattr(module.util, "find_spec", lambda name: None)
    with pytest.raises(TargetError, match="ziglang, is not installed") as error:
        find_toolchain(PackageOptions())
    assert error.value.hint == "pip install 'npuscope[board]'"


def test_missing_gcc_names_the_other_compiler(cache, monkeypatch):
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(TargetError, match="arm-none-eabi-gcc is not installed") as error:
        find_toolchain(PackageOptions(toolchain="gcc"))
    assert "--toolchain zig" in error.value.hint


def test_the_users_compiler_variables_stay_out(cache, monkeypatch):
    monkeypatch.setenv("CPATH", "/somewhere")
    monkeypatch.setenv("LD_PRELOAD", "")
    outcome = find_toolchain(PackageOptions()).run(
        [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    )
    assert "CPATH" not in outcome.text
    assert "LD_PRELOAD" not in outcome.text
    assert "ZIG_GLOBAL_CACHE_DIR" in outcome.text


def test_a_compiler_that_does_not_end(cache, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    with pytest.raises(TargetError, match=r"did not finish in 0\.2 s"):
        find_toolchain(PackageOptions()).run([sys.executable, "-c", "import time; time.sleep(60)"])


def test_a_compiler_that_cannot_start(cache):
    with pytest.raises(TargetError, match="cannot be started"):
        find_toolchain(PackageOptions()).run([str(cache / "nothing")])


def test_objects_are_kept_until_something_changes(cache, tmp_path):
    toolchain = find_toolchain(PackageOptions(cpu="cortex-m33"))
    file = tmp_path / "one.c"
    file.write_text("int one(void) { return 1; }\n")
    source = ImageSource(file, ("-Os",))
    (first,) = compile_own(toolchain, [source], own_flags(3))
    stamp = first.stat().st_mtime_ns
    assert compile_own(toolchain, [source], own_flags(3)) == [first]
    assert first.stat().st_mtime_ns == stamp
    assert compile_own(toolchain, [source], own_flags(2)) != [first]
    file.write_text("int one(void) { return 2; }\n")
    assert compile_own(toolchain, [source], own_flags(3)) != [first]


def test_a_source_of_ours_that_does_not_compile_is_our_bug(cache, tmp_path):
    file = tmp_path / "bad.c"
    file.write_text("int one(void) { return }\n")
    with pytest.raises(InternalError, match=r"bad\.c does not compile: .*error"):
        compile_own(find_toolchain(PackageOptions()), [ImageSource(file, ())], own_flags(3))
    assert list((cache / "objects").iterdir()) == []


@pytest.mark.parametrize("cpu", CPUS)
def test_helpers_hold_no_absolute_address(tmp_path, cpu):
    """Double division, 64-bit division, conversions: nothing in them is to be rebased."""
    toolchain = find_toolchain(PackageOptions(cpu=cpu))
    source = tmp_path / "sums.c"
    source.write_text(
        "double f(double a, double b, long long c) { return a / b + (double)c * a; }\n"
        "long long g(long long a, long long b) { return a / b + a % b; }\n"
        "float h(unsigned long long a) { return (float)a; }\n"
    )
    assert toolchain.compile(source, tmp_path / "sums.o", ["-Os"]).code == 0
    script = tmp_path / "sums.ld"
    script.write_text(linker_script({}))
    files = [str(tmp_path / "sums.o"), str(runtime_library(toolchain))]
    wanted = [word for name in "fgh" for word in ("-u", name)]
    output = tmp_path / "sums.elf"
    command = [*toolchain.linker, "-T", str(script), "--emit-relocs", "--gc-sections", *wanted]
    assert toolchain.run([*command, *files, "-o", str(output)]).code == 0
    linked = read_elf(output.read_bytes())
    kinds = {relocation.kind for relocation in linked.relocations}
    assert kinds
    assert kinds <= {"R_ARM_THM_CALL", "R_ARM_THM_JUMP24"}
    assert len(linked.flash) < 8192


def test_the_helper_library_is_built_once(cache):
    toolchain = find_toolchain(PackageOptions(cpu="cortex-m33"))
    first = runtime_library(toolchain)
    stamp = first.stat().st_mtime_ns
    assert runtime_library(toolchain) == first
    assert first.stat().st_mtime_ns == stamp


def test_sources_of_an_image():
    firmware = firmware_folder()
    sources = image_sources(firmware)
    names = {source.path.name for source in sources}
    assert {"callbacks.c", "moves.c", "memory.c"} <= names
    kernels = {file.name for file in (firmware / "kernels").glob("*.c")}
    assert kernels <= names
    for source in sources:
        scalar = source.path.name.endswith("_float.c")
        assert ("-fno-tree-slp-vectorize" in source.flags) == scalar


def test_float_kernels_stay_scalar(tmp_path):
    """The vector unit flushes denormal numbers: without the flags this loop would use it."""
    source, output = tmp_path / "loop.c", tmp_path / "loop.s"
    source.write_text(
        "void f(float *restrict a, const float *b, int n)"
        "{ for (int i = 0; i < n; i++) a[i] = b[i] * b[i]; }\n"
    )
    toolchain = find_toolchain(PackageOptions(cpu="cortex-m55"))
    sources = image_sources(firmware_folder())
    flags = next(entry.flags for entry in sources if entry.path.name.endswith("_float.c"))

    def vectors(*words):
        command = [*toolchain.compiler, *words, "-S", str(source), "-o", str(output)]
        assert toolchain.run(command).code == 0
        return re.findall(r"\bv\w+\.f32\s+q\d", output.read_text())

    assert vectors("-O2")
    assert not vectors(*flags)


def test_our_own_headers_are_enough():
    assert {"stdint.h", "stddef.h", "stdbool.h", "string.h", "ll_aton.h"} <= own_headers(
        firmware_folder()
    )


@pytest.mark.parametrize("dialect", [2, 3])
@pytest.mark.parametrize("cpu", CPUS)
def test_sources_of_the_image_have_no_warnings(tmp_path, cpu, dialect):
    toolchain = find_toolchain(PackageOptions(cpu=cpu))
    folder = firmware_folder() / "image"
    flags = [*own_flags(dialect), f"-I{folder}", "-Os", "-Wall", "-Wextra", "-Werror"]
    for source in sorted(folder.glob("*.c")):
        assert toolchain.compile(source, tmp_path / "out.o", flags).text == ""
