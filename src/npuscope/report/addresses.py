"""Where a board or a view answers: one line for people, one object for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from npuscope.shown import counted
from npuscope.text import safe_terminal


class Listening(Struct, frozen=True):
    """Where a virtual board answers, and the networks on it."""

    address: str
    networks: tuple[str, ...]


def board_text(board: Listening, *, emulated: bool) -> str:
    kind = "an emulated" if emulated else "a simulated"
    networks = safe_terminal(", ".join(board.networks))
    answer = f"{board.address}: {kind} board with {networks}"
    return f"{answer}\n  Ctrl-C or SIGTERM switches it off"


def board_json(board: Listening) -> dict[str, Any]:
    networks = list(board.networks)
    return {"address": board.address, "networks": networks, "schema": "npuscope/board/1"}


def view_text(address: str, *, models: Sequence[str]) -> str:
    number = counted(len(models), "model")
    return f"{address}\n  {number}, reachable from this computer only; Ctrl-C stops it"


def view_json(address: str) -> dict[str, Any]:
    return {"address": address, "schema": "npuscope/serve/1"}
