"""The command line. Only the chosen verb is imported, so `--version` and `--help` are quick."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn, TextIO

from npuscope.cli.parser import build_parser
from npuscope.errors import (
    INTERRUPTED,
    FileError,
    InternalError,
    NpuscopeError,
    OutputError,
    UsageError,
)
from npuscope.text import safe_lines
from npuscope.verbs.table import NAMES, record

VERBS = tuple(name for name in NAMES if " " not in name)
# Endings of files that verbs read: `--json model.tflite` means the model, not a file to write.
_MODELS = (".tflite", ".onnx")
_VALUE_OPTIONAL = ("--log", "--st-neural-art", "--art-profile")
_SOURCES = (
    *_MODELS,
    ".c",
    ".h",
    ".csv",
    ".txt",
    ".log",
    ".mpool",
    ".mdesc",
    ".raw",
    ".bin",
    ".toml",
    ".jsonl",
)
# As shells give it: 128 plus the number of SIGPIPE.
_BROKEN_PIPE = 141
# Only writing fails with these: no space, quota, read-only file system, file too large.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


class _StdoutError(OutputError):
    """stdout failed, so the error cannot be printed there as JSON either."""

    def __init__(self, message: str) -> None:
        super().__init__(message, where="stdout")


class _Stdout:
    """stdout, with failures of its own kind, so that they are not blamed on a file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _stdout_told():
            return self._stream.write(text)

    def flush(self) -> None:
        with _stdout_told():
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _stdout_told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _StdoutError(f"cannot be written: {error.strerror or error}") from None


# Objects between two looks for cycles; usually 700. A run leaves few cycles and loads many modules,
# whose objects all stay.
_MADE_BETWEEN = 100_000


def console() -> NoReturn:
    """Entry point of the installed command."""
    gc.set_threshold(_MADE_BETWEEN)
    verb = sys.argv[1] if sys.argv[1:] else ""
    if verb in VERBS and record(verb).one_thread:
        # numpy is not loaded yet. Each thread that it starts spins for some 20 ms.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = main(sys.argv[1:])
    gc.freeze()  # at exit Python would look for cycles in all that is left
    sys.exit(code)


def main(argv: Sequence[str]) -> int:
    """Run one verb and give its exit code."""
    if sys.stderr is None:  # closed as well, `2>&-`; the next file must not get its number
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stdout is None:  # whoever started us closed it: `>&-`
        return _report(_StdoutError("cannot be written: it is closed"), ())
    # Before anything is printed: names from models may hold what a console cannot show, and error
    # messages quote them too. Escapes beat a crash.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        with contextlib.redirect_stdout(_Stdout(sys.stdout)):
            code = _guarded(list(argv))
            # Buffered text may fail only here; at exit Python would report it with a traceback.
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader left (`| head`)
        _drop_stdout()
        return _BROKEN_PIPE
    except _StdoutError as error:
        _drop_stdout()
        return _report(error, ())


def _drop_stdout() -> None:
    """Keep Python from writing the rest, and from complaining, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _guarded(argv: list[str]) -> int:
    try:
        return _run(argv)
    except SystemExit as stop:  # --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except _StdoutError:
        raise
    # An InternalError is a bug like any other exception, although it has our type.
    except InternalError as error:
        return _report(_from_bug(error), argv)
    except NpuscopeError as error:
        return _report(error, argv)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _report(_from_os(error), argv)
    except KeyboardInterrupt:
        _say("npuscope: interrupted")
        return INTERRUPTED
    except Exception as error:
        return _report(_from_bug(error), argv)


def _run(argv: list[str]) -> int:
    if argv[:1] == ["help"]:  # `npuscope help fix` is `npuscope fix --help`
        argv = [*argv[1:], "--help"]
    if argv and argv[0] not in VERBS:
        from npuscope.cli.vendor_words import translated

        line = translated(argv)
        if line is not None and line.waits:
            print(f"npuscope {safe_lines(shlex.join(line.words))}\n{line.waits}")
            return 0
        if line is not None:
            argv = list(line.words)
            _say(f"npuscope: as `npuscope {safe_lines(shlex.join(argv))}`")
    # The verb is found before argparse runs, because only its module is imported.
    verb = next((word for word in argv if not word.startswith("-")), None)
    if verb is not None and verb not in VERBS:
        from npuscope.cli.hints import of_unknown_verb

        raise UsageError(f"unknown verb '{verb}'", hint=of_unknown_verb(verb, VERBS))
    # Words before the verb may ask for help about all of them.
    whole = argv[:1] not in ([verb], ["--version"])
    parser = build_parser(verb, whole, families=verb is not None and _asks_families(verb, argv))
    # Unknown words are collected, not refused by argparse: the error can then suggest an option.
    args, unknown = parser.parse_known_args(_json_before_source(argv))
    if unknown:
        from npuscope.verbs.check import wrong_words

        raise wrong_words(verb or "", unknown)
    if verb is None:
        parser.print_help(sys.stderr)
        return UsageError.exit_code
    _start_logging(args)
    from npuscope.cli.drive import perform
    from npuscope.whole_file import replacing, together

    # All files of one call appear together, or none of them.
    with replacing(args.force), together():
        return perform(args)


def _asks_families(verb: str, argv: list[str]) -> bool:
    """Is there a word that the verb's own record does not know? Families are loaded for it."""
    spellings = {spelling for option in record(verb).options for spelling in option.spellings}
    flags = {word.partition("=")[0] for word in argv if word.startswith("--")}
    return not {flag.replace("--no-", "--", 1) for flag in flags} <= spellings


def _json_before_source(argv: list[str]) -> list[str]:
    """`--json model.tflite` means JSON on stdout of that model, not a file of that name; `--log` in
    front of a model means the usual log, `--st-neural-art` the usual profile."""
    words: list[str] = []
    last: list[str] = []
    models = [word for word in argv if word.lower().endswith(_MODELS) or os.path.isdir(word)]
    for i, word in enumerate(argv):
        following = argv[i + 1] if i + 1 < len(argv) else ""
        is_source = following.lower().endswith(_SOURCES) or os.path.isdir(following)
        if word in _VALUE_OPTIONAL and models == [following]:
            last.append(word)
        else:
            words.append("--json=-" if word == "--json" and is_source else word)
    return [*words, *last]


def _start_logging(args: argparse.Namespace) -> None:
    import logging

    level = logging.ERROR if args.quiet else logging.DEBUG if args.verbose else logging.WARNING
    from npuscope.cli.output import SafeFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SafeFormatter("npuscope: %(message)s"))
    # `force`: a program that calls main() twice gets the level of the second call.
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger("npuscope").setLevel(level)


def _say(text: str) -> None:
    """On stderr, if it is open."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr)


def _report(error: NpuscopeError, argv: Sequence[str]) -> int:
    """One sentence on stderr; under --json the same as an object on stdout."""
    if "MODEL" in error.hint:
        from npuscope.cli.hints import with_names

        error.hint = with_names(error.hint, argv)
    _say(f"npuscope: {error}")
    if isinstance(error, InternalError) and _asked(argv, "--verbose", "-v"):
        import traceback

        lines = traceback.format_exception(error.__cause__ or error)
        _say(safe_lines("".join(lines)).rstrip("\n"))
    if _asked(argv, "--json"):
        import json

        keys = ("kind", "message", "where", "hint")
        result = {"error": {key: getattr(error, key) for key in keys}}
        # The sentence is on stderr already, so a stdout that fails as well is ignored.
        try:
            print(json.dumps(result, indent=2, ensure_ascii=False), flush=True)
        except _StdoutError:
            _drop_stdout()
    return error.exit_code


def _asked(argv: Sequence[str], *names: str) -> bool:
    return any(word.partition("=")[0] in names for word in argv)


def _from_os(error: OSError) -> NpuscopeError:
    # The same exception type stands for reading and writing; only the number says which it was.
    if error.errno in _FULL:
        where = str(error.filename or "the output")
        return OutputError(f"cannot be written: {error.strerror}", where=where)
    return FileError(error.strerror or str(error), where=str(error.filename or ""))


def _from_bug(error: Exception) -> InternalError:
    ours = InternalError(
        f"this is a bug in npuscope: {type(error).__name__}: {error}",
        hint="please report it, with the model and the output of the same command with --verbose",
    )
    ours.__cause__ = error
    return ours
