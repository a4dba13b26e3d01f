"""The top of every text report: the answer, then each assumption once."""

from __future__ import annotations

from npuscope.profiling.model import UNKNOWN_FIT, Fit, Profile, TensorInfo
from npuscope.report.figures import clocks_of, count, is_predicted, label, millions, ms, source_of
from npuscope.text import safe_terminal


def answer(profile: Profile) -> str:
    """Does it fit and how fast: the line a reader may stop at."""
    speed = f"{ms(profile.total_ms)} ms, {profile.inferences_per_s:.4g} inf/s"
    return f"{verdict(profile.fit)}; {speed} ({how_sure(profile)})"


def verdict(fit: Fit) -> str:
    if fit == UNKNOWN_FIT:
        return "runs on the device"
    if fit.on_chip:
        return "fits on chip, weights included"
    if fit.with_flash:
        return "fits on chip with flash"
    return "fits with external RAM" if fit.with_external_ram else "does not fit"


def how_sure(profile: Profile) -> str:
    """Where the time comes from, with the published error of a prediction."""
    source = source_of(profile)
    if is_predicted(source) and profile.model_error:
        return f"{label(source)}, known error: {profile.model_error}"
    return label(source)


def model_line(profile: Profile) -> str:
    model = profile.model
    name = safe_terminal(model.file) or "model"
    epochs = f"{count(len(profile.epochs))} epochs"
    if profile.fit == UNKNOWN_FIT:  # a device does not tell the others, or in its own way
        return f"model    {name}: {epochs}"
    size = f"{millions(model.macs)} MACs, {millions(model.params)} parameters"
    return f"model    {name}: {size}, {epochs}"


def machine_line(profile: Profile) -> str:
    machine = profile.machine
    clocks = clocks_of(profile)
    controller = "on" if machine.epoch_controller else "off"
    generation = f", generation {machine.generation}" if machine.generation else ""
    return (
        f"machine  {safe_terminal(machine.name)}{generation}, epoch controller {controller}, "
        f"MCU {clocks.mcu_mhz:g} MHz, NPU {clocks.npu_mhz:g} MHz"
    )


def interval_line(profile: Profile) -> list[str]:
    """Only a range that is wider than a point says something."""
    low, high = profile.interval_ms
    if not is_predicted(source_of(profile)) or low == high:
        return []
    return [f"range    {ms(low)} to {ms(high)} ms"]


def tensor_lines(profile: Profile) -> list[str]:
    model = profile.model
    return [
        *(_tensor("I", i, len(model.inputs), t) for i, t in enumerate(model.inputs, 1)),
        *(_tensor("O", i, len(model.outputs), t) for i, t in enumerate(model.outputs, 1)),
    ]


def _tensor(side: str, number: int, total: int, tensor: TensorInfo) -> str:
    shape = ",".join(str(dim) for dim in tensor.shape)
    quant = ""
    if tensor.scale is not None:
        quant = f", QLinear({tensor.scale:.9g},{tensor.zero_point},{tensor.dtype})"
    return (
        f"{side}[{number}/{total}]   '{safe_terminal(tensor.name)}' : {tensor.dtype}[{shape}], "
        f"{tensor.size_bytes} bytes{quant}"
    )


def note_lines(profile: Profile) -> list[str]:
    return [f"note     {safe_terminal(note)}" for note in profile.notes]
