"""A container's code with its relocations done: what a loader makes of it before a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from npuscope.errors import TargetError
from npuscope.program.ec_blob.binary import EcBinary
from npuscope.program.ec_blob.instructions import decode, encode
from npuscope.program.ec_blob.registers import WORD_MASK


def relocated(binary: EcBinary, bases: Mapping[str, int]) -> EcBinary:
    """Add a base address to the words that each relocation names.

    Relocations stay in the container; their words count from the base given here from now on.
    """
    unknown = sorted(set(bases) - {row.identifier for row in binary.relocations})
    if unknown:
        known = ", ".join(row.identifier for row in binary.relocations) or "none"
        raise TargetError(f"no relocation '{unknown[0]}'", hint=f"the blob has: {known}")
    words = encode(binary.instructions)
    for row in binary.relocations:
        for place in row.places:
            words[place] = (words[place] + bases.get(row.identifier, 0)) & WORD_MASK
    return replace(binary, instructions=decode(words))
