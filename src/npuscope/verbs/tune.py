"""`npuscope tune MODEL --max ms=20,ram=2MiB`: the best set-ups of a network for a budget."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from npuscope.errors import UsageError
from npuscope.options.kinds import (
    Argument,
    OptionGroup,
    Verb,
    file,
    flag,
    list_,
    text,
    whole,
)
from npuscope.options.rows import HTML, OUTPUT, OWN, READING, TARGET
from npuscope.verbs.check import checked
from npuscope.verbs.sweep import CLUSTER
from npuscope.verbs.validate import ACCURACY

if TYPE_CHECKING:
    from npuscope.accuracy.figures import Figure
    from npuscope.accuracy.run import DataRequest
    from npuscope.advice.tune.result import Tuned
    from npuscope.building import Options

# The network as it is is what others are compared with: no float original; the page is its own.
DATA = tuple(row for row in ACCURACY.options if row.name not in ("float_model", "html"))

# fmt: off
VERB = Verb(
    "search options, memories and edits for the best set-up within a budget",
    (Argument("model", "MODEL", "a quantized .tflite or .onnx model", "?"),),
    (
        OptionGroup("", (
            file("models", "rank the models of a folder instead", "DIR"),
            file("output", "file for the model of the best set-up (default: none is written)",
                "OUT", flags=("-o", "--output")),
            HTML,
            list_("limits", "limits: ms, ram, external, flash, drop (of accuracy, with --data)",
                "ms=20,ram=2MiB,drop=1%", flags=("--max",)),
        )),
        OptionGroup("search", (
            text("generations", "compiler generations to choose from (default: the one asked for)",
                "2.2,3.0,4.0", **OWN),
            text("sizes", "input sizes to choose from, where the network bears them; needs --data",
                "96,128,160x120"),
            text("machines", "machines to choose from, the first to compare with",
                "ethos-u55-64,ethos-u55-128"),
            flag("lossy", "try edits that change outputs too (as a limit on the drop does)"),
            whole("evaluations", "compile and time at most N points (default: a tenth of them, "
                "and 40 at least)"),
            whole("seed", "chooses the points of a large space (0)", default=0),
            file("store", "keep the runs here: the same command continues from there", "STORE"),
            whole("jobs", "number of processes (default: one per core)"),
        )),
        OptionGroup("dask cluster", CLUSTER.options[:2]),
        OptionGroup(ACCURACY.title, DATA),
        TARGET,
        READING,
        OUTPUT,
    ),
    text="npuscope.report.tune:tune_text",
    json="npuscope.report.tune:tune_json",
    busy="tuning",
    code="budget_code",
    reads=("model",),
    all_families=True,
)
# fmt: on


@checked(VERB)
def tune(
    model: str | Path | None = None,
    output: str | Path | None = None,
    *,
    models: str | Path | None = None,
    limits: Iterable[str] = (),
    html: str | Path | None = None,
    generations: str | None = None,
    sizes: str | None = None,
    machines: str | None = None,
    lossy: bool = False,
    evaluations: int | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    local_cluster: int | None = None,
    data: str | Path | None = None,
    labels: str | Path | None = None,
    task: str | None = None,
    preprocess: str | None = None,
    layout: str | None = None,
    resize: str = "stretch",
    limit: int | None = None,
    **options: Unpack[Options],
) -> Tuned:
    """The front of time, RAM, flash and accuracy, and the fastest set-up within the limits.

    In: a quantized model, or a folder of `models` to choose from; `limits` as
    ["ms=20", "ram=2MiB", "drop=1%"]. Out: every point of the front with the command that makes it;
    `output` gets the model of the best one. Accuracy is measured on `data`, as by `validate`.

    >>> npuscope.tune("model.tflite", limits=["ms=20"]).best
    """
    from npuscope.accuracy.run import DataRequest
    from npuscope.advice.sweep.options import SweepOptions, check
    from npuscope.advice.tune.run import TuneRequest, limits_of
    from npuscope.advice.tune.run import tune as run_tune
    from npuscope.advice.tune.zoo import choose
    from npuscope.building import refuse_stand_ins
    from npuscope.report.html.tune import tune_page
    from npuscope.verbs.fix import check_output
    from npuscope.whole_file import write_whole

    if (model is None) == (models is None):
        raise UsageError(
            "expected a model, or a folder of them with --models",
            hint="npuscope tune MODEL --max ms=20, or npuscope tune --models DIR --max ms=20",
        )
    refuse_stand_ins(options, "tune")
    engine = SweepOptions(jobs=jobs, scheduler=scheduler, local_cluster=local_cluster)
    check(engine)
    budget = limits_of(tuple(limits))
    request = TuneRequest(
        limits=budget,
        generations=_words(generations),
        evaluations=evaluations,
        seed=seed,
        lossy=lossy or "drop" in budget,
        sizes=tuple(_size(word) for word in _words(sizes)),
        machines=_words(machines),
        sweep=engine,
    )
    request.check(data is not None, options.get("machine"))
    measure = None
    if data is not None:
        wish = DataRequest(data, labels, task, preprocess, layout or "", resize, limit or 200)
        measure = _measuring(wish, model, options)
    plain: dict[str, Any] = dict(options)
    place = None if store is None else Path(store)
    if models is not None:
        result = choose(Path(models), plain, request, place, measure)
    else:
        path = Path(str(model))
        if output is not None:
            check_output(path, Path(output), "tuned")
        result = run_tune(path, plain, request, place, measure)
        if output is not None and result.best is not None:
            _write_best(path, Path(output), result, plain)
    if html is not None:
        write_whole(html, tune_page(result).encode())
    return result


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _size(word: str) -> tuple[int, int]:
    """`160` or `160x120`: rows, then columns."""
    numbers = word.lower().split("x")
    if len(numbers) > 2 or not all(n.isascii() and n.isdigit() and int(n) > 0 for n in numbers):
        raise UsageError(f"expected a size such as 160 or 160x120, found '{word}'", where="--sizes")
    return int(numbers[0]), int(numbers[-1])


def _measuring(request: DataRequest, model: str | Path | None, options: Options) -> Any:
    """The first figure of the task on the machine; samples of one model fit its inputs."""
    from npuscope.accuracy.inputs import network_inputs
    from npuscope.building import read_graph
    from npuscope.structs import replace
    from npuscope.verbs.validate import on_data

    if model is not None:
        request = replace(request, made_for=network_inputs(read_graph(str(model), options)))

    def measure(path: Path, options: Any) -> Figure:
        result = on_data(path, None, request, options)
        figures = result.rows[-1].figures
        if not figures:
            raise UsageError(
                "accuracy needs labels", where="--data", hint="give them with --labels"
            )
        return figures[0]

    return measure


def _write_best(path: Path, output: Path, result: Tuned, options: dict[str, Any]) -> None:
    """The file that the printed command makes."""
    from npuscope.advice.fix.candidates import FixChoice
    from npuscope.advice.fix.numeric import random_data
    from npuscope.advice.fix.run import fix
    from npuscope.advice.tune.resize import resized
    from npuscope.files.load import load_model, model_bytes
    from npuscope.whole_file import write_whole

    assert result.best is not None
    own: Any = {**options, **result.best.options}
    data = model_bytes(path)
    if result.best.edits:
        samples = random_data(load_model(path, own.get("shapes")), 1)
        data = fix(path, FixChoice(only=frozenset(result.best.edits)), own, samples).data
    if result.best.options.get("shapes"):
        data = resized(path, data, result.best.options["shapes"])
    write_whole(output, data)


def budget_code(result: Tuned) -> int:
    """1: no set-up is within the limits."""
    return 0 if result.best is not None else 1
