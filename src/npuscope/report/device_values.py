"""What a device said of itself, and how it was asked: the initial part of a profile."""

from __future__ import annotations

from npuscope.profiling.model import DevicePart
from npuscope.text import safe_terminal


def said_values(said: DevicePart | None) -> dict[str, str]:
    """What a device said of its network and of itself, under the vendor's names."""
    if said is None:
        return {}
    rows = {
        "n_nodes": str(said.n_nodes),
        "activations": str(said.activations_bytes),
        "compile_datetime": said.compile_datetime,
        "protocol": said.protocol,
        "tools": said.tools,
        "runtime lib": said.runtime,
        "capabilities": ", ".join(said.capabilities),
        "device.desc": said.description,
        "device.attrs": ",".join(said.attributes),
    }
    return {name: safe_terminal(value) for name, value in rows.items()}


def session_values(said: DevicePart | None) -> dict[str, str]:
    """How the device was asked, and for what; the tool's name and the time where they are known."""
    if said is None:
        return {}
    rows = {"tool": said.banner, "date": said.created, "session": said.session}
    rows = {name: value for name, value in rows.items() if value}
    rows |= {"c_name": said.network, "passes": said.passes}
    return {name: safe_terminal(value) for name, value in rows.items()}
