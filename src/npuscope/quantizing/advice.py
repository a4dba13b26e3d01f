"""What would help a layer that loses much: from what rounding its values and weights costs."""

from __future__ import annotations

from msgspec import Struct

from npuscope.machine.model import Machine
from npuscope.quantizing.outputs import ColumnGroup, OutputLoss
from npuscope.quantizing.sqnr import LayerLoss

_WORTH_DB = 1.0  # a smaller loss is that of any layer
_NEAR_DB = 6.0  # what rounding alone leaves is this near to what is left: it is the cause
_MANY = 12.0  # a peak so many times the root of the mean square: outliers set the scale
_SIXTEEN = "16x8"  # how the machine's modes with activations of 16 bits are called


def worst(layers: tuple[LayerLoss, ...], most: int) -> list[LayerLoss]:
    """Those that lose most, largest first."""
    losses = [loss for loss in layers if loss.drop_db >= _WORTH_DB]
    return sorted(losses, key=lambda loss: loss.drop_db, reverse=True)[:most]


def remedy(loss: LayerLoss, machine: Machine | Struct) -> str:
    """One sentence; the cheapest help first."""
    near_db = loss.sqnr_db + _NEAR_DB
    if loss.weights_db is not None and loss.weights_db < near_db:
        return (
            f"rounding its weights alone leaves {loss.weights_db:.0f} dB: few large ones set the "
            "scale of a channel; clip them in training, or keep this layer in float"
        )
    alone = f"rounding its values alone leaves {loss.steps_db:.0f} dB"
    if loss.steps_db < near_db and loss.peak_ratio > _MANY:
        return (
            f"{alone}, as peaks are {loss.peak_ratio:.0f} times the usual size: clip them in "
            f"training (ReLU6), or {_wider(machine)}"
        )
    if loss.steps_db < near_db:
        return f"{alone}: {_wider(machine)}"
    return f"it adds up what was rounded before it: {_wider(machine)}, or training with int8"


def rescue(loss: OutputLoss, group: ColumnGroup, machine: Machine | Struct) -> str:
    """What gives an output back its values, one sentence."""
    whole = group.axis is None
    if whole:
        return f"give this output more bits: {_wider(machine)}, or train with int8"
    if not loss.joined:
        return (
            f"give these columns an output of their own, with its own scale, or {_wider(machine)}"
        )
    names = ", ".join(f"'{name}'" for name in loss.joined)
    return (
        f"end the network before the Concat, with {names} as outputs that have scales of their "
        f"own (--split-outputs does it), or {_wider(machine)}"
    )


def _wider(machine: Machine | Struct) -> str:
    """Machines of other families are not known to have such a mode."""
    if isinstance(machine, Machine) and any(_SIXTEEN in name for name in machine.convacc.tiles):
        return "activations of 16 bits (16x8, about half the speed)"
    return "keeping this layer in float"
