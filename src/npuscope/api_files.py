"""Verbs about files and about npuscope itself: say what something is, turn it into another form."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.bounded_file import ASSEMBLY, BLOBS, read_bytes, read_text
from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.lean_dataclass import dataclass
from npuscope.options.check import verb
from npuscope.shown import Shown, counted
from npuscope.text import safe_terminal
from npuscope.whole_file import refuse_same, write_whole

if TYPE_CHECKING:
    from npuscope.identify.table import Identity
    from npuscope.installed import Installed
    from npuscope.loadable.checklist import Checklist
    from npuscope.loadable.compare import Difference
    from npuscope.loadable.fitting import Fitting
    from npuscope.loadable.image import Image
    from npuscope.machine.model import Machine
    from npuscope.program.ec_blob.binary import EcBinary
    from npuscope.rulebook.registry import Rule

__all__ = ["asm", "checklist", "completion", "disasm", "doctor", "inspect", "machines", "rules"]


@dataclass(frozen=True, slots=True, repr=False)
class Inspection(Shown):
    """What a file is; of a runtime-loadable image also itself, and what was asked about it."""

    identity: Identity
    image: Image | None = None
    differences: tuple[Difference, ...] | None = None
    fitting: Fitting | None = None

    @property
    def kind(self) -> str:
        return self.identity.kind

    @property
    def summary(self) -> dict[str, Any]:
        return self.identity.summary

    def told(self) -> str:
        return f"{self.kind} {self.identity.version}".rstrip()


@verb
def inspect(
    source: str | Path,
    *,
    compare: str | Path | None = None,
    firmware_map: str | Path | None = None,
) -> Inspection:
    """Say what a file or folder is, by its content, and what is in it.

    In: any file or folder of the tools; for a runtime-loadable image also another image to
    `compare` it with, or the `firmware_map` that it has to load on. Out: kind, version, counts.

    >>> npuscope.inspect("st_ai_output/network_c_info.json").kind
    """
    from npuscope.identify.table import identify

    found = identify(source)
    if found.kind == "loadable":
        return _image(found, source, compare, firmware_map)
    for option, value in (("compare", compare), ("firmware-map", firmware_map)):
        if value is not None:
            raise UsageError(
                f"{safe_terminal(str(source))} is not a runtime-loadable image",
                where=f"--{option}",
                hint="give a NAME_rel.bin as `npuscope package` writes it",
            )
    return Inspection(found)


def _image(
    found: Identity,
    source: str | Path,
    other: str | Path | None,
    firmware_map: str | Path | None,
) -> Inspection:
    """An image by itself, and the answers to what was asked about it."""
    from npuscope.loadable.compare import compare_images
    from npuscope.loadable.firmware_map import load_firmware_map
    from npuscope.loadable.fitting import fit
    from npuscope.loadable.image import read_image_file

    image = read_image_file(str(source))
    fitting = None if firmware_map is None else fit(image, load_firmware_map(str(firmware_map)))
    differences = None
    if other is not None:
        differences = compare_images(image, read_image_file(str(other)))
    return Inspection(found, image, differences, fitting)


@dataclass(frozen=True, slots=True, repr=False)
class Disassembly(Shown):
    """Blobs by name, and their text."""

    blobs: dict[str, EcBinary]
    text: str

    @property
    def words(self) -> int:
        return sum(i.words for blob in self.blobs.values() for i in blob.instructions)

    def told(self) -> str:
        return f"{counted(len(self.blobs), 'blob')}, {counted(self.words, 'word')}"


@verb
def disasm(
    source: str | Path, *, blob: str | None = None, output: str | Path | None = None
) -> Disassembly:
    """Epoch-controller blobs as text.

    In: a `*_ecblobs.h` or the bytes of one blob; `blob` chooses one of a header, `output` is a
    file for the text. Out: the blobs with their text, which `asm` turns into the same bytes.

    >>> print(npuscope.disasm("network_ecblobs.h", blob="_ec_blob_1").text)
    """
    from npuscope.program.ec_blob.assembly import disassemble

    blobs = _chosen(_blobs(str(source)), blob)
    texts = [f"; {safe_terminal(name)}\n{disassemble(one)}" for name, one in blobs.items()]
    made = Disassembly(blobs, "\n".join(texts))
    if output is None:
        return made
    if len(blobs) > 1:
        raise UsageError(
            f"{len(blobs)} blobs cannot be written to one file that can be assembled again",
            where=f"-o {output}",
            hint=f"choose one with --blob: {_names(blobs)}",
        )
    refuse_same(source, output)
    write_whole(output, made.text.encode("utf-8", "backslashreplace"))
    return made


def _blobs(path: str) -> dict[str, EcBinary]:
    """Blobs by name; a file that does not start with a blob's magic is a header."""
    from npuscope.program.ec_blob.binary import read_binary, read_header

    data = read_bytes(path, BLOBS)
    try:
        if not path.lower().endswith(".h"):
            return {Path(path).name: read_binary(data)}
        arrays = read_header(data.decode("utf-8", "replace"))
    except FileError as error:
        raise _in_file(error, path) from None
    blobs: dict[str, EcBinary] = {}
    for name, array in arrays.items():
        try:
            blobs[name] = read_binary(array)
        except FileError as error:
            raise _in_file(error, f"{path}, {name}") from None
    return blobs


def _in_file(error: NpuscopeError, path: str) -> FileError:
    where = ", ".join(filter(None, (safe_terminal(path), error.where)))
    return FileError(error.message, where=where, hint=error.hint)


def _chosen(blobs: dict[str, EcBinary], name: str | None) -> dict[str, EcBinary]:
    if name is None:
        return blobs
    if name not in blobs:
        raise UsageError(f"no blob '{safe_terminal(name)}'", hint=f"blobs: {_names(blobs)}")
    return {name: blobs[name]}


def _names(blobs: dict[str, EcBinary]) -> str:
    return safe_terminal(", ".join(blobs))


@dataclass(frozen=True, slots=True, repr=False)
class Assembled(Shown):
    """A blob, and its bytes."""

    blob: EcBinary
    data: bytes

    @property
    def instructions(self) -> int:
        return len(self.blob.instructions)

    def told(self) -> str:
        return f"{counted(self.instructions, 'instruction')}, {len(self.data)} bytes"


@verb
def asm(source: str | Path, output: str | Path | None = None, *, name: str = "1") -> Assembled:
    """Text to an epoch-controller blob.

    In: text as `disasm` writes it. Out: the blob with its bytes; with `output` they are written,
    as a C header if it ends in .h, whose array's name ends in `name`.

    >>> npuscope.asm("blob.txt", "blob.bin").instructions
    """
    from npuscope.program.ec_blob.assembly import assemble
    from npuscope.program.ec_blob.binary import write_binary

    if output is not None:
        refuse_same(source, output)
    try:
        binary = assemble(read_text(source, ASSEMBLY, errors="replace"))
        data = write_binary(binary)
    except NpuscopeError as error:
        raise _in_file(error, str(source)) from None
    if output is not None:
        _write_blob(str(output), data, name)
    return Assembled(binary, data)


def _write_blob(path: str, data: bytes, name: str) -> None:
    from npuscope.program.ec_blob.binary import array_name, write_header

    if path.lower().endswith(".h"):
        text = write_header({array_name(name): data})
        data = text.encode("utf-8", "backslashreplace")
    write_whole(path, data)


@verb
def checklist(source: str | Path) -> Checklist:
    """What a build needs on the board, from its own files.

    In: a folder that a compiler wrote, ours or a vendor's. Out: files to flash, memories to
    open, caches to keep in step.

    >>> npuscope.checklist("st_ai_output").memories
    """
    from npuscope.loadable.checklist import make_checklist

    return make_checklist(str(source))


@verb
def machines() -> tuple[Machine, ...]:
    """The known machines, each with its default generation.

    In: nothing. Out: a Machine for every name that the option `machine` takes.

    >>> [machine.name for machine in npuscope.machines()]
    """
    from npuscope.machine.load import known_machines, load_machine

    return tuple(load_machine(name) for name in known_machines())


@verb
def rules(rule: str | None = None) -> tuple[Rule, ...]:
    """The rules that `explain` and `lint` check.

    In: nothing, or the id of one `rule`. Out: rules with sentence, cause and fixes.

    >>> npuscope.rules("NA-SOFTMAX")[0].cause
    """
    from npuscope.advice.explain import catalogue

    known = catalogue()
    if rule is None:
        return tuple(known.values())
    if rule.upper() in known:
        return (known[rule.upper()],)
    import difflib

    near = difflib.get_close_matches(rule.upper(), known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`npuscope rules` lists all"
    raise UsageError(f"unknown rule '{rule}'", hint=hint)


@verb
def doctor() -> Installed:
    """What is installed, and what each missing part would add.

    In: nothing. Out: packages, extras, programs and the cache, each with its state.

    >>> npuscope.doctor().ready
    """
    from npuscope.installed import installed

    return installed()


@verb
def completion(shell: str) -> str:
    """A script that completes verbs, options and values in a shell.

    In: bash, zsh or fish. Out: the script; it calls nobody, so that completion takes no time.

    >>> npuscope.completion("bash")
    """
    from npuscope.options.completion import SHELLS
    from npuscope.options.completion import completion as made

    if shell not in SHELLS:
        known = ", ".join(SHELLS)
        raise UsageError(f"unknown shell '{shell}'", where="npuscope.completion", hint=known)
    return made(shell)
