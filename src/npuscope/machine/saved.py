"""A Machine as a file: the whole of it, as its TOML, a pool file and what-if values came to."""

from __future__ import annotations

from pathlib import Path

import orjson

from npuscope.bounded_file import MACHINE, parse_json, read_bytes, read_head
from npuscope.errors import FileError
from npuscope.machine.model import Machine
from npuscope.machine.schema import SchemaError, build, find_fault

SCHEMA = "npuscope/machine/1"
_HEAD_BYTES = 256


def machine_text(machine: Machine) -> str:
    """One line of JSON, the same for equal machines."""
    return orjson.dumps(machine, option=orjson.OPT_SORT_KEYS).decode()


def machine_from(text: str | bytes) -> Machine:
    return build(Machine, parse_json(text))


def machine_to_json(machine: Machine) -> bytes:
    record = {"schema": SCHEMA, "machine": machine}
    return orjson.dumps(record, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def is_saved_machine(path: Path) -> bool:
    return f'"schema": "{SCHEMA}"'.encode() in read_head(path, _HEAD_BYTES)


def read_machine(path: Path) -> Machine:
    """A saved machine; an error names the key."""
    try:
        record = parse_json(read_bytes(path, MACHINE))
        machine = build(Machine, record["machine"])
    except SchemaError as error:
        raise FileError(str(error), where=str(path)) from None
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"is not a saved machine: {error}", where=str(path)) from None
    fault = find_fault(machine)
    if fault is not None:
        raise FileError(f"{fault}", where=str(path))
    return machine
