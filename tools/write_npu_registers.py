"""Write firmware/npu/npu_registers.h from the register map that blobs are made with.

python tools/write_npu_registers.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from npuscope.program.ec_blob.register_file import MEMORY_WORD, SECOND_WINDOW  # noqa: E402
from npuscope.program.ec_blob.register_map import (  # noqa: E402
    DESTINATIONS,
    FIRST_DESTINATION,
    SOURCES,
)
from npuscope.program.ec_blob.registers import (  # noqa: E402
    CLEAR_BIT,
    CTRL,
    ENABLE_BIT,
    REGISTERS_PER_PAGE,
    RESET_BIT,
    RUNNING_BIT,
    UNIT_BY_NAME,
    Register,
    UnitPages,
    clock_gate,
)

HEADER = ROOT / "firmware" / "npu" / "npu_registers.h"
_SWITCH = "STRSWITCH"
_HEAD = """\
/* SPDX-License-Identifier: Apache-2.0
 * Registers of the NPU. Written by tools/write_npu_registers.py: edit the register map instead.
 *
 * A unit has a page of 4 KiB; a register is a word in it, by index. A field is one number: index
 * of its register, lowest bit and width. RESET lists a unit's reset values by index. */
#ifndef NPU_REGISTERS_H
#define NPU_REGISTERS_H

#define NPU_FIELD(index, lsb, width) ((index) << 16 | (lsb) << 8 | (width))
#define NPU_FIELD_INDEX(field) ((field) >> 16)
#define NPU_FIELD_LSB(field) ((field) >> 8 & 0xffu)
#define NPU_FIELD_WIDTH(field) ((field) & 0xffu)
#define NPU_OFFSET(page, index) ((uint32_t)(page) * 4096u + (uint32_t)(index) * 4u)
"""


def header_text() -> str:
    """The whole header."""
    parts = [_HEAD, *_common(), *_switch()]
    for unit in UNIT_BY_NAME.values():
        parts += ["", f"/* {unit.name} */", *_unit(unit)]
    return "\n".join([*parts, "", "#endif", ""])


def _define(name: str, value: object) -> str:
    return f"#define NPU_{name} {value}"


def _common() -> Iterator[str]:
    yield "/* Every unit's CTRL has these. */"
    yield _define("CTRL", f"{CTRL}u")
    bits = {"EN": ENABLE_BIT, "CLR": CLEAR_BIT, "CONFCLR": RESET_BIT, "RUNNING": RUNNING_BIT}
    for name, bit in bits.items():
        yield _define(f"CTRL_{name}", f"(1u << {bit})")
    yield ""
    yield "/* Words of a page from here on are the unit's memory. */"
    yield _define("MEMORY", f"{MEMORY_WORD}u")
    yield _define("MEMORY_WORDS", f"{REGISTERS_PER_PAGE - MEMORY_WORD}u")
    yield "/* The window at TRANSLATEADDR 0 starts this many entries into an arithmetic memory. */"
    yield _define("ARITH_WINDOW_ENTRIES", f"{SECOND_WINDOW}u")
    most = max(max(unit.by_index) + 1 for name, unit in UNIT_BY_NAME.items() if name != _SWITCH)
    yield "/* No unit but the switch has more. */"
    yield _define("MOST_REGISTERS", f"{most}u")
    first_gated = next(unit for unit in UNIT_BY_NAME.values() if clock_gate(unit.page) == 0)
    yield "/* Clock gates follow the order of the pages. */"
    yield _define("CLOCK_GATE(page)", f"(1u << ((page) - {first_gated.page}u))")


def _switch() -> Iterator[str]:
    yield ""
    yield "/* The stream switch: numbers of sources, and destination registers (first, ports). */"
    number = 0
    for unit, count in SOURCES:
        yield _define(f"SOURCE_{unit}", f"{number}u")
        number += count
    yield _define("SOURCES", f"{number}u")
    index = FIRST_DESTINATION
    for unit, count, ports in DESTINATIONS:
        yield _define(f"DESTINATION_{unit}", f"{index}u")
        yield _define(f"DESTINATION_{unit}_PORTS", f"{ports}u")
        index += count * ports
    yield _define("DESTINATIONS_FIRST", f"{FIRST_DESTINATION}u")
    yield _define("DESTINATIONS_END", f"{index}u")
    link = UNIT_BY_NAME[_SWITCH].by_index[FIRST_DESTINATION]
    yield from _fields("LINK", link, index=0)


def _unit(unit: UnitPages) -> Iterator[str]:
    yield _define(f"{unit.name}_PAGE", f"{unit.page}u")
    yield _define(f"{unit.name}_COUNT", f"{unit.count}u")
    registers = unit.registers
    if unit.name == _SWITCH:
        # Its destination registers are alike, so their fields are listed once.
        registers = tuple(r for r in registers if r.index < FIRST_DESTINATION)
    for register in registers:
        name = f"{unit.name}_{register.name}"
        yield _define(name, f"{register.index}u")
        yield from _fields(name, register, register.index)
    yield _define(f"{unit.name}_CTRL_RESET", f"{unit.by_index[CTRL].reset:#x}u")
    yield _define(f"{unit.name}_REGISTERS", f"{max(unit.by_index) + 1}u")
    if unit.name != _SWITCH:
        yield _resets(unit)


def _fields(name: str, register: Register, index: int) -> Iterator[str]:
    for field in register.fields:
        yield _define(f"{name}_{field.name}", f"NPU_FIELD({index}u, {field.lsb}u, {field.width}u)")


def _resets(unit: UnitPages) -> str:
    found = {index: register.reset for index, register in unit.by_index.items()}
    words = (f"{found.get(index, 0):#x}u" for index in range(max(found) + 1))
    return _define(f"{unit.name}_RESET", "{ " + ", ".join(words) + " }")


def main() -> None:
    text = header_text()
    HEADER.write_text(text, encoding="utf-8")
    print(f"{len(text.splitlines())} lines in {HEADER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
