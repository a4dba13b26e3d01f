"""`npuscope package DIR`: a compiled network as an image that a firmware loads at run time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, OptionGroup, VendorEffect, Verb, file, flag, text
from npuscope.options.rows import BOARDS, vendor_output
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.loadable.build import Package
    from npuscope.loadable.codes import PackageOptions
    from npuscope.report.package import PackagePlan, Packaging

_DEFAULT_BUILD = "st_ai_output"
CPUS = ("cortex-m55", "cortex-m33")
TOOLCHAINS = ("zig", "gcc")

# One option per row is easier to read than the formatter's layout.
# fmt: off
VERB = Verb(
    "turn a compiled network into an image that firmware loads at run time",
    (Argument("source", "DIR", "folder of a compiled network", "?"),),
    (
        OptionGroup("", (
            file("input", "the folder or its network.c (st_ai_output)", "DIR",
                flags=("-i", "--input"), python=False),
            file("directory", "output folder; other files there are kept (build)", "DIR",
                default="build", flags=("-o", "--output")),
            text("name",
                "name of the files and of the network on the board (default: that of network.c)",
                "NAME", default="", flags=("-n", "--name")),
            text("cpu",
                "processor of the board: cortex-m33 for the emulated one (default), cortex-m55 for "
                "an STM32N6", "", choices=CPUS),
            text("board", "the board: its processor, and its memories must hold the image "
                "(default: the emulated one)", "", choices=BOARDS),
            text("toolchain", "compiler of the code; gcc is an installed arm-none-eabi-gcc", "",
                default="zig", choices=TOOLCHAINS),
            flag("split", "parameters in a separate file"),
            flag("no_secure",
                "for the non-secure world: internal pools at 0x24000000 and above"),
            flag("gen_c_file", "the image as a C array too: NAME_img_rel.c and .h"),
            flag("parse_only", "only read and check; build nothing", python=False),
            flag("no_clean", "keep sources, objects and the ELF file in NAME_build"),
            text("options", "all of these as one PackageOptions", "RECORD", shell=False),
            file("pack_dir",
                "not needed: npuscope includes the runtime, the kernels and the compiler",
                "DIR", python=False, effect=VendorEffect.NONE),
        )),
        vendor_output("package.log"),
    ),
    run="packaging",
    text="npuscope.report.package:packaging_text",
    json="npuscope.report.package:packaging_json",
    log="npuscope.report.package:packaging_text",
    busy="packaging",
    reads=("source", "input"),
)
# fmt: on


@checked(VERB)
def package(
    source: str | Path = _DEFAULT_BUILD,
    directory: str | Path | None = None,
    options: PackageOptions | None = None,
    *,
    name: str = "",
    cpu: str | None = None,
    board: str | None = None,
    toolchain: str = "zig",
    split: bool = False,
    no_secure: bool = False,
    gen_c_file: bool = False,
    no_clean: bool = False,
) -> Package:
    """A compiled network as an image that a firmware loads at run time.

    In: a folder that `compile` wrote with `relocatable`, or its network.c. Out: the image with its
    files; with `directory` they are written there.

    >>> npuscope.package("net", "build", cpu="cortex-m33").files
    """
    from npuscope.loadable.build import package as run_package
    from npuscope.loadable.codes import PackageOptions
    from npuscope.whole_file import write_files

    request = options or PackageOptions(
        name=name,
        cpu=_processor(cpu, board),
        toolchain=toolchain,
        split=split,
        secure=not no_secure,
        c_file=gen_c_file,
    )
    result = run_package(Path(source), request)
    if board is not None:
        from npuscope.loadable.fitting import refuse_misfit

        refuse_misfit(result.image, board)
    if directory is not None:
        write_files(Path(directory), result.files)
        if no_clean:
            write_files(Path(directory) / f"{result.name}_build", result.intermediate)
    return result


def _processor(cpu: str | None, board: str | None) -> str:
    from npuscope.loadable.boards import board_named

    return cpu or (board_named(board).cpu if board else "cortex-m33")


def packaging(
    directory: str,
    *,
    source: str | None = None,
    input: str | None = None,
    parse_only: bool,
    **options: Any,
) -> Packaging | PackagePlan:
    """The vendor's tool takes the folder with an option, and may only look at it."""
    if source is not None and input is not None:
        raise UsageError("the folder is given twice", where=f"--input {safe_terminal(input)}")
    from npuscope.loadable.build import parse
    from npuscope.loadable.codes import PackageOptions
    from npuscope.progress import kept_at_interrupt
    from npuscope.report.package import PackagePlan, Packaging

    path = Path(source or input or _DEFAULT_BUILD)
    if parse_only:
        request = PackageOptions(name=options["name"], secure=not options["no_secure"])
        return PackagePlan(*parse(path, request))
    with kept_at_interrupt("what was compiled so far is kept"):
        result = package(path, directory, **options)
    paths = tuple(Path(directory) / name for name in result.files)
    return Packaging(result, paths, _processor(options.get("cpu"), options.get("board")))
