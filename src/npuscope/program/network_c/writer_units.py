"""Hardware epochs: the start function configures and enables units, the end function stops them."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from npuscope.errors import TargetError
from npuscope.program.model import Epoch, Group
from npuscope.program.network_c.layout import (
    ADDRESS_FIELDS,
    ENUM_WORDS,
    LIST_FIELDS,
    RENAMED,
    UNITS,
    UnitLayout,
)
from npuscope.program.network_c.writer_scope import Lines, Scope, node_name
from npuscope.program.units import Link, PoolUnit, Port, Ref, Streng, Unit
from npuscope.text import c_comment, safe_terminal

# The switch counts frames in one byte.
_MAX_FRAMES = 255


class UnitBlock(Struct, frozen=True):
    """One group of an epoch under the name of its two functions."""

    epoch: Epoch
    group: Group
    name: str  # "2", or "2_1" for a second group

    @property
    def inputs(self) -> list[Streng]:
        return [u for u in self.group.units if isinstance(u, Streng) and not u.dir]

    @property
    def outputs(self) -> list[Streng]:
        return [u for u in self.group.units if isinstance(u, Streng) and u.dir]

    @property
    def processors(self) -> list[Unit]:
        return [u for u in self.group.units if not isinstance(u, Streng)]

    @property
    def start(self) -> str:
        return f"LL_ATON_Start_EpochBlock_{self.name}"

    @property
    def end(self) -> str:
        return f"LL_ATON_End_EpochBlock_{self.name}"


def blocks(epoch: Epoch) -> list[UnitBlock]:
    """One block a group; the first carries the epoch's plain number."""
    groups = epoch.groups or ()
    names = (str(epoch.number), *(f"{epoch.number}_{i}" for i in range(1, len(groups))))
    return [UnitBlock(epoch, group, name) for group, name in zip(groups, names, strict=False)]


def hardware_functions(scope: Scope, block: UnitBlock) -> Lines:
    """Start and end function of one block."""
    lines = function_head(scope, block.end)
    end = [*lines, *_switch(block, "Deinit", "deinit"), *_units(block, "Disable"), "}"]
    return [*_start(scope, block), "", *end, ""]


def function_head(scope: Scope, name: str) -> Lines:
    head = [f"static void {name}({scope.dialect.parameters})", "{"]
    unused = ["epoch_block", *(["nn_instance"] if scope.dialect.has_instance else [])]
    return head + [f"  LL_ATON_LIB_UNUSED({argument});" for argument in unused] + [""]


def _start(scope: Scope, block: UnitBlock) -> Lines:
    lines = function_head(scope, block.start)
    for unit, kind in zip(block.processors, _kinds(block), strict=True):
        layout = UNITS[unit.unit]
        name = f"{unit.unit}_{unit.id}_init_{block.name}"
        lines += [
            _unit_comment(layout, unit.id),
            f"  /* kind={c_comment(kind)} node={node_name(block.epoch)} */",
            *scope.relocated(_struct(layout, name, _fields(scope, unit, layout))),
            f"  {layout.init}({unit.id}, &{name});",
            "",
        ]
    for engine in block.inputs:
        lines += _engine(scope, block, engine, "input")
    lines += _bandwidth(scope, block.inputs, "Dma input bandwidth from memory pools:", "->")
    for engine in block.outputs:
        lines += _engine(scope, block, engine, "output")
    lines += _bandwidth(scope, block.outputs, "Dma output bandwidth to memory pools:", "<-")
    return [*lines, *_switch(block, "Init", "init"), *_units(block, "Enable"), "}"]


def _kinds(block: UnitBlock) -> list[str]:
    """Operators of the epoch by unit: one each where the counts agree, else the unit's type.

    One convolution may take several accelerators.
    """
    operators, processors = block.epoch.operators, block.processors
    if len(operators) == len(processors):
        return list(operators)
    others = [name for name in operators if name != "Conv"]
    shared = [unit.unit == "CONVACC" for unit in processors]
    if len(others) < len(operators) and len(others) == len(processors) - sum(shared):
        rest = iter(others)
        return ["Conv" if is_conv else next(rest) for is_conv in shared]
    return [UNITS[unit.unit].c_name for unit in processors]


def _struct(layout: UnitLayout, name: str, fields: Lines) -> Lines:
    return [f"  static const {layout.struct} {name} = {{", *fields, "  };"]


def _unit_comment(layout: UnitLayout, unit_id: int) -> str:
    return f"  /* Unit= {layout.number(unit_id)} [{layout.c_name} {unit_id}] */"


def _fields(scope: Scope, unit: Unit, layout: UnitLayout) -> Lines:
    values = {name: getattr(unit, name) for name in layout.fields}
    if isinstance(unit, PoolUnit):
        # The driver always crops; a last row or column of 0 would leave nothing.
        values["bottomCrop"] = unit.bottomCrop or unit.inputY - 1
        values["rightCrop"] = unit.rightCrop or unit.inputX - 1
    return [
        f"    .{RENAMED.get((unit.unit, name), name)} = {_value(scope, unit.unit, name, value)},"
        for name, value in values.items()
    ]


def _value(scope: Scope, unit: str, name: str, value: object) -> str:
    if name in ADDRESS_FIELDS:
        return f"{{{scope.address(value)}}}" if isinstance(value, Ref) else "{0}"
    if name in LIST_FIELDS and isinstance(value, tuple):
        return "{" + ", ".join(str(int(entry)) for entry in value) + "}"
    assert isinstance(value, int)
    words = ENUM_WORDS.get((unit, name), {})
    return words.get(int(value), str(int(value)))


def _engine(scope: Scope, block: UnitBlock, engine: Streng, side: str) -> Lines:
    layout = UNITS[engine.unit]
    buffer = scope.buffer(engine.addr_base.buffer)
    place = (
        f"{scope.pool_numbers[buffer.pool]}[{buffer.offset},{buffer.offset + buffer.size_bytes}]"
    )
    name = f"{engine.unit}_{engine.id}_init_{block.name}"
    # The port that an input engine feeds; an output engine takes the first port of a unit.
    fed = (link for link in block.group.links if link.source == Port(engine.unit, engine.id))
    return [
        _unit_comment(layout, engine.id),
        f"  /* Emit conf for {layout.c_name} node={node_name(block.epoch)} {side} "
        f"ports={next((link.destination.port for link in fed), 0)} range={place} */",
        *scope.relocated(_struct(layout, name, _engine_fields(scope, engine))),
        f"  {layout.init}({engine.id}, &{name}, 1);",
        "",
    ]


def _engine_fields(scope: Scope, engine: Streng) -> Lines:
    """Offsets count from the pool's base, as the runtime moves whole pools."""
    buffer = scope.buffer(engine.addr_base.buffer)
    shift = buffer.offset + engine.addr_base.offset
    values = {
        name: "0" if name in ADDRESS_FIELDS else str(int(getattr(engine, name)))
        for name in UNITS[engine.unit].fields
    }
    values["addr_base"] = scope.base(buffer)
    values["offset_start"] = str(shift + engine.offset_start)
    # A raster engine has no end of its own.
    values["offset_end"] = str(shift + engine.offset_end if engine.offset_end else 0)
    limit = shift + engine.offset_limit if engine.offset_limit else scope.limit(buffer)
    values["offset_limit"] = str(limit)
    comments = {"addr_base": f" /* {c_comment(buffer.name)} */"}
    return [f"    .{n} = {v},{comments.get(n, '')}" for n, v in values.items()]


def _bandwidth(scope: Scope, engines: list[Streng], title: str, arrow: str) -> Lines:
    moved: Counter[str] = Counter()
    for engine in engines:
        moved[scope.buffer(engine.addr_base.buffer).pool] += engine.total_bytes
    rows = [f"  /* {c_comment(pool)} {arrow} {count} */" for pool, count in moved.items()]
    return [f"  /* {title} */", *rows, ""]


def _switch(block: UnitBlock, action: str, word: str) -> Lines:
    name = f"STREAM_SWITCH_0_{word}_in_{block.name}"
    links = block.group.links
    return [
        f"  static const LL_Switch_{action}TypeDef {name}[] = {{",
        *(f"    {{ {_link(link, block.epoch.name)} }}," for link in links),
        "  };",
        f"  LL_Switch_{action}({name}, {len(links)});",
        "",
    ]


def _link(link: Link, where: str) -> str:
    if max(link.frames0, link.frames1) > _MAX_FRAMES:
        raise TargetError(
            f"a switch context counts at most {_MAX_FRAMES} frames, but {link.frames0} and "
            f"{link.frames1} are needed",
            where=where,
        )
    source = _port("SRC", link.source)
    parts = [f"LL_Switch_Init_Dest() = {_port('DST', link.destination)}"]
    parts += _context(0, source, link.enable0, link.frames0)
    if link.frames0:
        parts += _context(1, source, link.enable1, link.frames1)
    return ", ".join(parts)


def _context(number: int, source: str, enabled: bool, frames: int) -> list[str]:
    return [
        f"LL_Switch_Init_Source({number}) = {source}",
        f"LL_Switch_Init_Context({number}) = {int(enabled)}",
        f"LL_Switch_Init_Frames({number}) = {frames}",
    ]


def _port(side: str, port: Port) -> str:
    if port.unit not in UNITS:
        raise TargetError(f"unit type '{safe_terminal(port.unit)}' has no name in C")
    return f"ATONN_{side}PORT(STRSWITCH, 0, {port.unit}, {port.id}, {port.port})"


def _units(block: UnitBlock, action: str) -> Lines:
    """Writers first: nothing may arrive before its receiver is on."""
    units = [*block.outputs, *block.processors, *block.inputs]
    name = f"{action}_epoch_{block.name}_all_units"
    return [
        f"  static const LL_ATON_{action}Units_InitTypeDef {name}[] = {{",
        *(f"    {{ {{{u.unit}, {u.id}}} }}, /* {UNITS[u.unit].c_name} */" for u in units),
        "  };",
        f"  LL_ATON_{action}Units_Init({name}, {len(units)});",
    ]
