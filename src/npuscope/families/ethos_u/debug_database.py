"""Vela's debug database: which operator of the source each command of a stream came from.

An XML file whose tables are CSV: `queue` has the place of every kernel's command, `optimised` what
it computes, `source` the operator of the model, by its number in the file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping

_TABLE = re.compile(r'<table name="(\w+)">\s*<!\[CDATA\[(.*?)\]\]>', re.S)


def source_ops(text: str) -> dict[tuple[int, int], int]:
    """(number of the stream, place of a command in bytes) -> number of the operator."""
    tables = {name: _rows(body) for name, body in _TABLE.findall(text)}
    source = {row.get("id"): row.get("ext_key") for row in tables.get("source", ())}
    optimised = {row.get("id"): row.get("source_id") for row in tables.get("optimised", ())}
    streams = {row.get("id"): number for number, row in enumerate(tables.get("cmdstream", ()))}
    places: dict[tuple[int, int], int] = {}
    for row in tables.get("queue", ()):
        key = source.get(optimised.get(row.get("optimised_id")))
        number, offset = streams.get(row.get("cmdstream_id")), row.get("offset", "")
        if number is not None and offset.isdigit() and key is not None and key.isdigit():
            places[number, int(offset)] = int(key)
    return places


def source_names(text: str) -> dict[tuple[int, int], str]:
    """The same with the operators as Vela spells them, for files whose source is not at hand."""
    tables = {name: _rows(body) for name, body in _TABLE.findall(text)}
    words = {row.get("ext_key"): row.get("operator") for row in tables.get("source", ())}
    places = source_ops(text).items()
    return {place: f"{words.get(str(number)) or 'operator'}:#{number}" for place, number in places}


def _rows(body: str) -> list[Mapping[str, str]]:
    return list(csv.DictReader(io.StringIO(body.strip())))
