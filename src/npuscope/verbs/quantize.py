"""`npuscope quantize MODEL -o OUT --data DATA`: a float model to the int8 form that is fastest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import INTERRUPTED
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, real, text, whole
from npuscope.options.rows import IMAGES, OUTPUT, READING, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Options
    from npuscope.quantizing.run import Quantized

# fmt: off
VERB = Verb(
    "quantize a float model to the best int8 form for the machine, layer by layer",
    (Argument("model", "MODEL", "a float .onnx or .tflite model"),),
    (
        OptionGroup("", (
            file("output", "file for the quantized model (default: none is written)", "OUT",
                flags=("-o", "--output")),
            text("data", "calibration data: a folder of images, a .npz or .npy file, or `random`",
                "DIR|FILE|random", required=True),
            text("calibration", "how ranges are found; auto tries all and keeps the best (auto)",
                "", default="auto", choices=("auto", "minmax", "percentile", "mse", "entropy")),
            whole("samples", "use at most N samples; every fourth is held out to compare on (128)",
                default=128),
            whole("seed", "chooses samples and random data (0)", default=0),
            real("loss_db", "SQNR that may be given up for a faster form, in dB (1)", "DB",
                default=1.0),
            text("progress", "called with progress messages", "FUNCTION", shell=False),
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
    mean: str | Sequence[float] | None = None,
    std: str | Sequence[float] | None = None,
    pixel_max: float = 1.0,
    layout: str | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[Options],
) -> Quantized:
    """Quantize a float model to int8: calibrate, try forms that suit the machine, measure.

    In: a float model and data for calibration. Inputs and outputs are int8 unless the options
    ask for other types. Out: times, SQNR of outputs and layers, and what was chosen; `data`
    of the result is the content of the quantized file, which `output` names.

    >>> npuscope.quantize("model.onnx", "int8.onnx", data="images").sqnr_db
    """
    from npuscope.accuracy.pictures import image_form
    from npuscope.building import refuse_stand_ins
    from npuscope.progress import progress as report_progress
    from npuscope.quantizing.run import Wish
    from npuscope.quantizing.run import quantize as run_quantize
    from npuscope.verbs.fix import check_output
    from npuscope.whole_file import write_whole

    refuse_stand_ins(options, "quantize")
    if output is not None:
        check_output(Path(model), Path(output), "quantized")
    form = image_form(mean, std, pixel_max, layout)
    wish = Wish(data, calibration, samples, seed, loss_db, form)
    tell = progress or (lambda text: report_progress("%s", text))
    result = run_quantize(Path(model), wish, options, tell)
    if output is not None:
        write_whole(output, result.data)
    return result


def interrupted_code(result: Quantized) -> int:
    return INTERRUPTED if result.interrupted else 0
