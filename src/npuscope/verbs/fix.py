"""`npuscope fix MODEL -o FIXED`: edits that help, applied, compiled again, timed and measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import INTERRUPTED, UsageError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag, list_, text, whole
from npuscope.options.rows import HTML, IMAGES, OUTPUT, READING, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.fix.run import Fixed
    from npuscope.building import Options


def names(texts: Iterable[str]) -> list[str]:
    """What --only was given: names with commas between."""
    return [name.strip() for text in texts for name in text.split(",")]


# fmt: off
VERB = Verb(
    "find edits of the model that help: apply, recompile, time and compare them",
    (Argument("model", "MODEL", "a .tflite or .onnx model"),),
    (
        OptionGroup("", (
            file("output", "file for the fixed model (default: none is written)", "FIXED",
                flags=("-o", "--output")),
            text("data", "compare on real data: a folder of images, a .npz or .npy file",
                "DIR|FILE"),
            whole("seeds", "random inputs to compare on without --data (2)", default=2),
            HTML,
        )),
        OptionGroup("which fixes (default: those that keep the network's function)", (
            list_("only", "rules or fixes, applied even if they cost time; split-inputs=144+113 "
                "chooses the sizes", "NAME,...", parse=names),
            flag("cut", "end the network after its last NPU op; lists what the application "
                "must then do"),
            flag("drop_softmax", "end the network before a final Softmax"),
            flag("integer_io", "int8 or uint8 instead of float32 at inputs and outputs"),
            flag("everything", "try every edit that keeps the network's function, including these "
                "three, and keep those that help", flags=("--all",)),
            flag("lossy",
                "allow edits that change outputs, such as nearest for bilinear resizing"),
        )),
        OptionGroup("images", IMAGES),
        TARGET,
        READING,
        OUTPUT,
    ),
    text="npuscope.report.fix:fix_text",
    json="npuscope.report.fix:fix_json",
    busy="fixing",
    code="interrupted_code",
    reads=("model",),
    all_families=True,
)
# fmt: on


@checked(VERB)
def fix(
    model: str | Path,
    output: str | Path | None = None,
    *,
    only: Iterable[str] = (),
    cut: bool = False,
    drop_softmax: bool = False,
    integer_io: bool = False,
    everything: bool = False,
    lossy: bool = False,
    seeds: int = 2,
    data: str | Path | None = None,
    mean: str | Sequence[float] | None = None,
    std: str | Sequence[float] | None = None,
    pixel_max: float = 1.0,
    layout: str | None = None,
    html: str | Path | None = None,
    **options: Unpack[Options],
) -> Fixed:
    """Edit a model file where that helps; `data` of the result is the content of the fixed one.

    In: a model. By default fixes that keep the network's function are tried; `lossy` allows
    the others. `only` names rules or fixes, which are then applied even if they cost time.
    Results are compared on `data`, or on random inputs of `seeds` seeds. Out: every step with
    its effect; with `output`, the fixed model as a file.

    >>> npuscope.fix("model.tflite", "fixed.tflite", cut=True).steps
    """
    from npuscope.accuracy.pictures import image_form
    from npuscope.advice.fix.candidates import FixChoice
    from npuscope.advice.fix.candidates import only as known
    from npuscope.advice.fix.run import fix as run_fix
    from npuscope.building import refuse_stand_ins
    from npuscope.files.load import load_model
    from npuscope.quantizing.network_inputs import network_inputs
    from npuscope.whole_file import write_whole

    refuse_stand_ins(options, "fix")
    if seeds < 1:
        raise UsageError(f"expected 1 or more, found {seeds}", where="--seeds")
    if output is not None:
        check_output(Path(model), Path(output), "fixed")
    chosen, sizes = known(only)
    choice = FixChoice(chosen, cut, drop_softmax, integer_io, everything, lossy, sizes)
    form = image_form(mean, std, pixel_max, layout)
    inputs = network_inputs(load_model(model, options.get("shapes")), data, form, seeds)
    fixed = run_fix(model, choice, options, inputs)
    if output is not None:
        write_whole(output, fixed.data)
    if html:
        from npuscope.report.html.changes import fix_page
        from npuscope.report.result_files import write_html

        write_html(html, lambda: fix_page(fixed, None if output is None else str(output)))
    return fixed


def interrupted_code(fixed: Fixed) -> int:
    return INTERRUPTED if fixed.interrupted else 0


def check_output(source: Path, target: Path, what: str) -> None:
    """A file of the same format, but not the same file."""
    from npuscope.whole_file import refuse_same

    refuse_same(source, target)
    if source.suffix.lower() != target.suffix.lower():
        raise UsageError(
            f"the model is a {source.suffix} file, so the {what} one is",
            where=f"-o {target}",
            hint=f"name it {target.with_suffix(source.suffix)}",
        )
