"""A binary as plain JSON values: every instruction with its place and names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from npuscope.program.ec_blob.binary import EcBinary
from npuscope.program.ec_blob.instructions import HEADER_WORDS, Instruction, Irq, Label
from npuscope.program.ec_blob.registers import page_name, register_name


def binary_json(binary: EcBinary) -> dict[str, Any]:
    at = HEADER_WORDS
    instructions = []
    for instruction in binary.instructions:
        instructions.append({"word": at, **_instruction(instruction)})
        at += instruction.words
    return {
        "words": at - HEADER_WORDS,
        "epochs": [i.number for i in binary.instructions if isinstance(i, Label)],
        "container": binary.container,
        "relocations": [asdict(row) for row in binary.relocations],
        "patches": [asdict(row) for row in binary.patches],
        "instructions": instructions,
    }


def _instruction(instruction: Instruction) -> dict[str, Any]:
    if isinstance(instruction, (Irq, Label)):
        return {"op": instruction.name, "number": instruction.number}
    fields = asdict(instruction)
    page, register = fields.pop("page"), fields.pop("register")
    fields.pop("increment", None)  # the operation's name says it
    return {
        "op": instruction.name,
        "unit": page_name(page),
        "register": register_name(page, register),
        **fields,
    }
