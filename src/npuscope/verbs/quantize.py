"""`npuscope quantize MODEL -o OUT --data DATA`: a float model to the int8 form that is fastest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import INTERRUPTED, UsageError
from npuscope.families.registry import family_for
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag, real, text, whole
from npuscope.options.rows import HTML, IMAGES, OUTPUT, READING, TARGET
from npuscope.verbs.check import checked
from npuscope.verbs.validate import ACCURACY

if TYPE_CHECKING:
    from npuscope.building import Options
    from npuscope.quantizing.run import Quantized
    from npuscope.quantizing.task import TaskWish

_FLASH = {"weights_bytes": 0.0}  # how a limit on the flash is read

# fmt: off
VERB = Verb(
    "quantize a float model to the best int8 form for the machine, layer by layer",
    (Argument("model", "MODEL", "a float .onnx or .tflite model"),),
    (
        OptionGroup("", (
            file("output", "file for the quantized model (default: none is written)", "OUT",
                flags=("-o", "--output")),
            text("data", "calibration data: a folder of images, a .npz or .npy file, or `random`; "
                "with labels all that `validate --data` takes", "DIR|FILE|random", required=True),
            text("calibration", "how ranges are found; auto tries all and keeps the best (auto)",
                "", default="auto", choices=("auto", "minmax", "percentile", "mse", "entropy")),
            whole("samples", "use at most N samples; every fourth is held out to compare on (128)",
                default=128),
            whole("seed", "chooses samples and random data (0)", default=0),
            real("loss_db", "SQNR that may be given up for a faster form, in dB (1)", "DB",
                default=1.0),
            flag("split_outputs", "give outputs that join columns of unlike ranges in their parts, "
                "each with its own scale"),
            text("progress", "called with progress messages", "FUNCTION", shell=False),
        )),
        OptionGroup("judged by the task", (
            *(row for row in ACCURACY.options if row.name in ("labels", "task")),
            text("max_drop", "what the answers may lose against the float network, for time or "
                "flash; above 0 weights of 4 bits are tried (0)", "1%"),
            text("max_flash", "bytes that the weights may take: 4 bits where they are more",
                "SIZE"),
            *(row for row in ACCURACY.options if row.name in ("preprocess", "resize", "limit")),
            HTML,
        )),
        OptionGroup("images", IMAGES),
        TARGET,
        READING,
        OUTPUT,
    ),
    text="npuscope.report.quantize:quantize_text",
    json="npuscope.report.quantize:quantize_json",
    busy="quantizing",
    code="interrupted_code",
    reads=("model",),
    all_families=True,
)
# fmt: on


@checked(VERB)
def quantize(
    model: str | Path,
    output: str | Path | None = None,
    *,
    data: str | Path,
    calibration: str = "auto",
    samples: int = 128,
    seed: int = 0,
    loss_db: float = 1.0,
    split_outputs: bool = False,
    mean: str | Sequence[float] | None = None,
    std: str | Sequence[float] | None = None,
    pixel_max: float = 1.0,
    layout: str | None = None,
    labels: str | Path | None = None,
    task: str | None = None,
    max_drop: str | float | None = None,
    max_flash: str | int | None = None,
    preprocess: str | None = None,
    resize: str = "stretch",
    limit: int | None = None,
    html: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[Options],
) -> Quantized:
    """Quantize a float model to int8: calibrate, try forms that suit the machine, measure.

    In: a float model and data for calibration. Inputs and outputs are int8 unless the options
    ask for other types. Out: times, SQNR of outputs and layers, and what was chosen; `data`
    of the result is the content of the quantized file, which `output` names. With `labels` or a
    `task` the answers on `data` judge, and `judgement` holds figures of samples that no choice has
    seen; `html` shows all forms that were tried.

    >>> npuscope.quantize("model.onnx", "int8.onnx", data="images").sqnr_db
    """
    from npuscope.accuracy.pictures import image_form, named_form
    from npuscope.building import refuse_stand_ins
    from npuscope.progress import progress as report_progress
    from npuscope.quantizing.run import Wish
    from npuscope.quantizing.run import quantize as run_quantize
    from npuscope.quantizing.samples import RANDOM
    from npuscope.structs import replace
    from npuscope.verbs.fix import check_output
    from npuscope.whole_file import write_whole

    refuse_stand_ins(options, "quantize")
    family = family_for(model, options)
    if not family.quantizes:
        raise family.lacks("quantize")
    if output is not None:
        check_output(Path(model), Path(output), "quantized")
    if preprocess is not None:
        if mean is not None or std is not None:
            raise UsageError("states mean and std itself", where="--preprocess")
        form = named_form(preprocess, layout or "", resize)
    else:
        form = replace(image_form(mean, std, pixel_max, layout), resize=resize)
    plain = replace(image_form(None, None, 1.0, None), resize="stretch")
    if str(data) == RANDOM and (preprocess is not None or form != plain):
        raise UsageError(
            "random numbers are not read as pictures are",
            where="--data random",
            hint="give samples, or leave out mean, std, pixel-max, layout, preprocess and resize",
        )
    judged = _task(data, labels, task, (max_drop, max_flash, limit, html))
    wish = Wish(data, calibration, samples, seed, loss_db, form, judged, split_outputs)
    tell = progress or (lambda text: report_progress("%s", text))
    result = run_quantize(Path(model), wish, options, tell)
    if output is not None:
        write_whole(output, result.data)
    if html is not None:
        from npuscope.report.html.quantize import quantize_page

        write_whole(html, quantize_page(result, Path(model).name).encode())
    return result


def _task(
    data: str | Path,
    labels: str | Path | None,
    task: str | None,
    more: tuple[str | float | None, str | int | None, int | None, str | Path | None],
) -> TaskWish | None:
    """None where decibels judge: then what only labels can judge is refused."""
    from npuscope.accuracy.run import DataRequest
    from npuscope.advice.gate import parse_limits, parse_share
    from npuscope.quantizing.task import TaskWish

    max_drop, max_flash, limit, _ = more
    if labels is None and task is None:
        names = dict(zip(("max-drop", "max-flash", "limit", "html"), more, strict=True))
        for name, value in names.items():
            if value is not None:
                raise UsageError(
                    "needs labels", where=f"--{name}", hint="give --labels FILE, or --task"
                )
        return None
    if limit is not None and limit < 1:
        raise UsageError(f"expected at least 1 sample, found {limit}", where="--limit")
    request = DataRequest(data, labels, task, limit=limit)
    drop = 0.0 if max_drop is None else parse_share(str(max_drop), "--max-drop")
    limits = {} if max_flash is None else {"weights_bytes": str(max_flash)}
    flash = next((int(row.value) for row in parse_limits(limits, None, _FLASH)), None)
    return TaskWish(request, drop, flash)


def interrupted_code(result: Quantized) -> int:
    return INTERRUPTED if result.interrupted else 0
