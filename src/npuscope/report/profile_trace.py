"""The timeline of a profile: one inference, epoch after epoch, with what each one used."""

from __future__ import annotations

from npuscope.machine.model import Machine
from npuscope.profile.model import Profile
from npuscope.program.model import Program
from npuscope.report.figures import label, source_of
from npuscope.report.profile_trace_counters import add_bandwidth, add_memory
from npuscope.report.profile_trace_flows import add_flows
from npuscope.report.profile_trace_rows import (
    add_control,
    add_engines,
    add_epochs,
    add_software,
    add_units,
)
from npuscope.report.profile_trace_scene import Scene, scene_of
from npuscope.trace_model import TraceModel, floats, texts


def trace_of_profile(
    profile: Profile, program: Program | None = None, machine: Machine | None = None
) -> TraceModel:
    """Rows of epochs, units, engines and kernels; counters; arrows from producer to consumer.

    Without the `program` there are no arrows and no memory in use; the `machine` adds the limits
    of its memories.
    """
    scene = scene_of(profile)
    _add_inference(scene)
    slices = add_epochs(scene)
    add_control(scene)
    add_software(scene)
    add_units(scene)
    add_engines(scene)
    add_bandwidth(scene)
    if program is not None:
        add_memory(scene, program, machine)
        add_flows(scene, program, slices)
    return scene.builder.build(profile.model.file)


def _add_inference(scene: Scene) -> None:
    """The run as a whole: what the numbers stand for and where they come from."""
    profile, builder = scene.profile, scene.builder
    told = {
        "model": profile.model.file,
        "machine": profile.machine.name,
        "generation": profile.machine.generation,
        "provenance": label(source_of(profile)),
        "model_error": profile.model_error,
        "notes": " | ".join(profile.notes),
    }
    args = {name: texts(builder.text(text)) for name, text in told.items() if text}
    builder.add_slices(
        scene.row("inference"),
        0,
        scene.end_ns,
        "inference",
        "inference",
        {"total_ms": floats(profile.total_ms), **args},
    )
