"""The stream switch: links between units as destination registers."""

from __future__ import annotations

from npuscope.errors import FileError, TargetError
from npuscope.program.ec_blob.bindings import Image
from npuscope.program.ec_blob.register_map import DESTINATIONS, FIRST_DESTINATION, SOURCES
from npuscope.program.units import Link, Port

_DESTINATIONS: tuple[Port, ...] = tuple(
    Port(unit, number, port)
    for unit, count, ports in DESTINATIONS
    for number in range(count)
    for port in range(ports)
)
_SOURCES: tuple[Port, ...] = tuple(
    Port(unit, number) for unit, count in SOURCES for number in range(count)
)
_REGISTERS = {port: FIRST_DESTINATION + i for i, port in enumerate(_DESTINATIONS)}
_NUMBERS = {port: i for i, port in enumerate(_SOURCES)}


def lift_links(image: Image) -> tuple[Link, ...]:
    """All links that have a context on, in the order of their registers."""
    links = []
    for port, index in _REGISTERS.items():
        name = image.unit.by_index[index].name
        if image.get(f"{name}.EN0") or image.get(f"{name}.EN1"):
            links.append(_lift(image, name, port))
    return tuple(links)


def _lift(image: Image, name: str, port: Port) -> Link:
    enable0, enable1 = image.get(f"{name}.EN0"), image.get(f"{name}.EN1")
    sources = {image.get(f"{name}.LINK{i}") for i, on in ((0, enable0), (1, enable1)) if on}
    source = min(sources)
    if len(sources) > 1 or source >= len(_SOURCES):
        raise FileError(
            f"{port.unit} {port.id} port {port.port} is linked to sources {sorted(sources)}"
        )
    frames0, frames1 = image.get(f"{name}.FNR0"), image.get(f"{name}.FNR1")
    return Link(_SOURCES[source], port, bool(enable0), frames0, bool(enable1), frames1)


def lower_links(links: tuple[Link, ...]) -> dict[int, int]:
    """Destination register -> its word."""
    image = Image("STRSWITCH")
    found: dict[int, int] = {}
    for link in links:
        index = _REGISTERS.get(link.destination)
        source = _NUMBERS.get(Port(link.source.unit, link.source.id))
        if index is None or source is None or index in found:
            raise TargetError(
                f"no switch register for the link {link.source} to {link.destination}"
            )
        name = image.unit.by_index[index].name
        second = bool(link.enable1 or link.frames1)
        values = {
            "EN0": int(link.enable0),
            "LINK0": source,
            "FNR0": link.frames0,
            "EN1": int(link.enable1),
            "LINK1": source if second else 0,
            "FNR1": link.frames1,
        }
        for field, value in values.items():
            image.put(f"{name}.{field}", value)
        found[index] = image.words[name]
    return found
