"""How values show themselves: one line in a shell, a small table in a notebook, a data frame."""

from __future__ import annotations

from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct, StructMeta

from npuscope.errors import UsageError
from npuscope.text import html_text, safe_terminal

if TYPE_CHECKING:
    import pandas

Rows = list[dict[str, Any]]
_MOST_ROWS = 20


def counted(number: int, what: str) -> str:
    """1 epoch, 2 epochs."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def significant(value: float, digits: int) -> str:
    """So many digits, and whole numbers instead of powers of ten: 0.0571, 3.29, 19,780."""
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else text


class Shown(ABC):
    """What a noun or a result tells of itself: `told` is one line, `table` its rows by column."""

    __slots__ = ()

    @abstractmethod
    def told(self) -> str: ...

    def table(self) -> Rows:
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {safe_terminal(self.told())}>"

    def _repr_html_(self) -> str:
        return html_table(f"{type(self).__name__}: {self.told()}", self.table())

    def to_dataframe(self) -> pandas.DataFrame:
        """The table for pandas, which the extra `notebook` brings."""
        return data_frame(self.table())


class _ShownMeta(StructMeta, ABCMeta):
    """Records whose classes may be abstract."""


class ShownRecord(Shown, Struct, frozen=True, metaclass=_ShownMeta):
    """A record that is shown."""


class Several(tuple[Any, ...], Shown):
    """Values of one kind, shown as one table; `columns` are names, each with its attribute."""

    __slots__ = ()
    __repr__ = Shown.__repr__
    noun: ClassVar[str]
    columns: ClassVar[tuple[tuple[str, str], ...]]

    def told(self) -> str:
        return counted(len(self), self.noun)

    def table(self) -> Rows:
        """One row per value."""
        getters = [(name, attrgetter(path)) for name, path in self.columns]
        return [{name: get(one) for name, get in getters} for one in self]


def html_table(caption: str, rows: Sequence[dict[str, Any]]) -> str:
    """The first rows; whatever names hold is text there."""
    columns = list(rows[0]) if rows else []
    head = "".join(f"<th>{html_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{_cells(row.values())}</tr>" for row in rows[:_MOST_ROWS])
    more = len(rows) - _MOST_ROWS
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<p>{html_text(caption)}</p>{table}{rest}"


def _cells(values: Iterable[object]) -> str:
    return "".join(f"<td>{html_text(_cell(value))}</td>" for value in values)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def data_frame(rows: Sequence[dict[str, Any]]) -> pandas.DataFrame:
    try:
        import pandas
    except ModuleNotFoundError:
        raise UsageError(
            "data frames need pandas", hint="pip install 'npuscope[notebook]'"
        ) from None
    return pandas.DataFrame(list(rows))
