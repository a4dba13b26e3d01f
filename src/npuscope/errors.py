"""Errors a user may see: one sentence, the place, a hint; the family says who has to act."""

from __future__ import annotations

from npuscope.text import safe_terminal, without_middle

INTERRUPTED = 130  # exit code, as shells give it: 128 plus the number of SIGINT
# Names and values of a damaged file can be of any length; messages must stay readable.
_LONGEST = 1400


class NpuscopeError(Exception):
    """Root of all expected errors. `exit_code` follows the command-line contract."""

    exit_code = 70
    kind = "internal"

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """As people read it; the parts themselves stay as they were given, for JSON."""
        parts = [safe_terminal(part) for part in (self.where, self.message, self.hint)]
        if sum(map(len, parts)) > _LONGEST:
            parts = [without_middle(part, _LONGEST // 3) for part in parts]
        where, message, hint = parts
        place = f"{where}: " if where else ""
        return f"{place}{message}" + (f"\n  hint: {hint}" if hint else "")


class UsageError(NpuscopeError):
    """The command line or an option's value is wrong."""

    exit_code = 2
    kind = "usage"


class ModelError(NpuscopeError):
    """The model cannot be used as it is: unsupported op, dynamic shape, float network."""

    exit_code = 3
    kind = "model"


class NotComputed(ModelError):
    """A valid op in a form that nothing here computes: readers keep it as work of unknown cost."""


class FileError(NpuscopeError):
    """A file is missing, truncated, corrupt or not what it claims to be."""

    exit_code = 3
    kind = "file"


class OutputError(NpuscopeError):
    """A result could not be written: a full disk, a folder without rights, a closed stdout."""

    exit_code = 74
    kind = "output"


class TargetError(NpuscopeError):
    """The machine, a pool file or a generation cannot do what was asked."""

    exit_code = 3
    kind = "target"


class DeviceError(NpuscopeError):
    """The board or its connection failed."""

    exit_code = 4
    kind = "device"


class InternalError(NpuscopeError):
    """Our own bug: an invariant does not hold."""
