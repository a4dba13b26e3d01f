"""Verbs about runs: compare two, hold them to limits, do many, show their costs elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from npuscope.errors import FileError, UsageError
from npuscope.options.check import verb
from npuscope.whole_file import as_file_error, write_whole

if TYPE_CHECKING:
    from npuscope.advice.compare.model import Comparison
    from npuscope.advice.gate import Gate
    from npuscope.advice.sweep.drive import Sweep, SweepOptions, Tls, Watch
    from npuscope.advice.sweep.summary import Summary
    from npuscope.building import Options, Source
    from npuscope.graph.model import Graph
    from npuscope.profiling.model import Profile
    from npuscope.report.core_runs import CoreRun
    from npuscope.report.export_drawing import Export

__all__ = ["compare", "export", "gate", "sweep", "sweep_report"]


@verb
def compare(
    a: Source,
    b: Source | None = None,
    *,
    a_options: Options | None = None,
    b_options: Options | None = None,
    as_built: bool = False,
    noise: float | str = 0.0,
    html: str | Path | None = None,
    **options: Unpack[Options],
) -> Comparison:
    """What changed from A to B by source op; without `b`, the same source with other options.

    In: models, builds, saved profiles, results in JSON, or log:FILE. Rows of a measured run that
    differ by less than its spread, or than the share `noise`, are marked as noise. With `as_built`,
    A is a vendor's build and B its model, which is compiled with the options and pools of A.
    Out: rows with milliseconds of both sides and the cause; `fidelity`: how alike the epochs are.

    >>> npuscope.compare("model.tflite", b_options={"generation": "2.2"}).rows
    """
    from npuscope.advice.compare.run import compare as run_compare
    from npuscope.advice.compare.sides import open_sides
    from npuscope.advice.gate import parse_share
    from npuscope.many_core.buffer_format import is_core_run

    if is_core_run(a) or is_core_run(b):
        from npuscope.report.core_runs import CoreComparison, read_core_run

        _check_core_runs(a, b, html)
        return CoreComparison(read_core_run(a), read_core_run(b))  # type: ignore[arg-type,return-value]
    share = parse_share(noise, "--noise") if isinstance(noise, str) else noise
    first: Options = {**options, **(a_options or {})}
    second: Options = {**options, **(b_options or {})}
    if as_built:
        from npuscope.advice.compare.as_built import compare_as_built

        found = compare_as_built(a, b, first, second, share)
    else:
        found = run_compare(*open_sides(a, a if b is None else b, first, second), share)
    if html:
        from npuscope.report.html.compare import compare_page
        from npuscope.report.result_files import write_html

        write_html(html, lambda: compare_page(found))
    return found


def _check_core_runs(a: object, b: object, html: object) -> None:
    from npuscope.many_core.buffer_format import is_core_run

    for source in (a, b):
        if not is_core_run(source):
            raise UsageError(
                "a run of many cores is compared with another one",
                where=str(source or "B"),
                hint="give two results of `npuscope opstats --json`, or two folders of buffers",
            )
    if html:
        raise UsageError("not made for runs of many cores", where="--html")


@verb
def gate(
    source: Source,
    *,
    most: Mapping[str, float | str] | None = None,
    least: Mapping[str, float | str] | None = None,
    baseline: Source | None = None,
    tolerance: float | str = 0.0,
    with_findings: bool = False,
    summary: str | Path | None = None,
    sarif: str | Path | None = None,
    junit: str | Path | None = None,
    html: str | Path | None = None,
    **options: Unpack[Options],
) -> Gate:
    """Whether a run keeps its limits, e.g. most={"total_ms": 20, "internal_ram_bytes": "2MiB"}.

    In: a source with limits, or a `baseline` (an earlier result, a saved profile, any source)
    against which time, memory and epochs off the NPU may get worse by the share `tolerance`.
    Out: the checks with their figures, and whether all passed.

    >>> npuscope.gate("model.tflite", most={"total_ms": 20, "SW": 0}).passed
    """
    from npuscope.advice.compare.sides import open_side
    from npuscope.advice.gate import (
        figures,
        needs_findings,
        parse_limits,
        parse_share,
        read_baseline,
    )
    from npuscope.advice.gate import gate as run_gate

    share = parse_share(str(tolerance), "--tol")
    run = _core_run(source, options)
    if run is not None:
        from npuscope.report.core_runs import gate_core_run

        for name, given in (("--sarif", sarif), ("--junit", junit), ("--html", html)):
            if given:
                raise UsageError("not made for runs of many cores", where=name)
        return gate_core_run(run, most, least, baseline, share)  # type: ignore[arg-type,return-value]
    side = open_side(source, options)
    wanted = bool(with_findings or sarif or junit) or needs_findings(most, least)
    findings = _findings_of(side, source, options) if wanted else None
    limits = parse_limits(most, least, figures(side.profile, findings))
    before = None if baseline is None else read_baseline(baseline, options)
    found = run_gate(side, limits, before, share, findings)
    from npuscope.report.result_files import write_findings, write_html

    if html:
        from npuscope.report.html.changes import gate_page

        write_html(html, lambda: gate_page(found))
    write_findings(
        "gate", source, found.findings, side.profile.machine.generation, sarif=sarif, junit=junit
    )
    if summary:
        from npuscope.report.gate import gate_markdown

        append(Path(summary), gate_markdown(found))
    return found


def _core_run(source: Source, options: Options) -> CoreRun | None:
    """A run of many cores, or an estimate for a machine with them."""
    from npuscope.families import family_of
    from npuscope.machine.load import known_machines
    from npuscope.many_core.buffer_format import is_core_run

    family = family_of(options.get("machine"), known_machines())
    if family is None and not is_core_run(source):
        return None
    from npuscope.many_core.family import FAMILY
    from npuscope.report.core_runs import model_run, read_core_run

    if family is None:
        return read_core_run(str(source))
    if family.name != FAMILY.name:
        raise UsageError(f"gate is not made for {family.name} machines", where="machine")
    return model_run(family.time(family.compile(str(source), dict(options))))


def _findings_of(side: Any, source: Source, options: Options) -> Any:
    # Rules look at the program; a saved result holds times only.
    if side.program is None or side.is_measured:
        raise UsageError(
            "findings need a model or a build, not a saved run",
            where=side.name,
            hint="give the model or the build itself",
        )
    from npuscope.api_advice import explained

    return explained(source, options).findings


def append(path: Path, text: str) -> None:
    """Append, because several gates of a job write to one summary."""
    with as_file_error(path), path.open("ab", buffering=0) as file:
        file.write(text.encode("utf-8"))  # in one piece, also beside another gate


@verb
def sweep(
    spec: str | Path,
    store: str | Path | None = None,
    options: SweepOptions | None = None,
    watch: Watch | None = None,
    *,
    jobs: int | None = None,
    timeout: float | None = None,
    retry_failed: bool = False,
    yes: bool = False,
    scheduler: str | None = None,
    local_cluster: int | None = None,
    tls_ca: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    dashboard: bool = False,
    html: str | Path | None = None,
    csv: str | Path | None = None,
    parquet: str | Path | None = None,
) -> Sweep:
    """Do the runs of a sweep file that its store does not hold yet.

    In: the sweep file (TOML) and the `store` (JSONL; SPEC.jsonl beside it). `watch` hears of every
    run that is done. Out: counts and rows. With a local cluster a script needs the usual
    `if __name__ == "__main__"`.

    >>> npuscope.sweep("sweep.toml", jobs=2).rows
    """
    from npuscope.advice.sweep.drive import SweepOptions
    from npuscope.advice.sweep.drive import sweep as run_sweep

    asked = options or SweepOptions(
        jobs=jobs,
        scheduler=scheduler,
        local_cluster=local_cluster,
        tls=_tls(tls_ca, tls_cert, tls_key),
        dashboard=dashboard,
        timeout_s=timeout,
        retry_failed=retry_failed,
        yes=yes,
    )
    _check_parquet(parquet)
    found = run_sweep(spec, store, asked, watch or (lambda tally: None))
    _write_tables(found.rows, found.store, html, csv, parquet)
    return found


def _tls(*files: str | Path | None) -> Tls | None:
    from npuscope.advice.sweep.drive import Tls

    if not any(files):
        return None
    if not all(files):
        raise UsageError("--tls-ca, --tls-cert and --tls-key go together")
    return Tls(*map(str, files))


@verb
def sweep_report(
    store: str | Path,
    *,
    html: str | Path | None = None,
    csv: str | Path | None = None,
    parquet: str | Path | None = None,
) -> Summary:
    """What a store of runs says: best runs, latency against memory, failures.

    In: the JSONL file that `sweep` left. Out: models with their best runs and fronts; tables and
    a page as files on request.

    >>> npuscope.sweep_report("sweep.jsonl", html="sweep.html").models
    """
    from npuscope.advice.sweep.journal import read_rows
    from npuscope.advice.sweep.summary import summarise

    _check_parquet(parquet)
    rows = read_rows(Path(store))
    if not rows:
        raise FileError("this store holds no runs yet", where=str(store))
    _write_tables(rows, Path(store), html, csv, parquet)
    return summarise(rows)


def _check_parquet(path: str | Path | None) -> None:
    """What a file needs is looked for before hours of runs, not after them."""
    if path:
        from npuscope.report.sweep import need_pyarrow

        need_pyarrow()


def _write_tables(
    rows: Any,
    store: Path,
    html: str | Path | None,
    csv: str | Path | None,
    parquet: str | Path | None,
) -> None:
    """The files that were asked for."""
    if html:
        from npuscope.advice.sweep.summary import summarise
        from npuscope.report.html.sweep import sweep_page

        write_whole(html, _utf8(sweep_page(summarise(rows), store.name)))
    if csv:
        from npuscope.report.sweep import sweep_csv

        write_whole(csv, _utf8(sweep_csv(rows)))
    if parquet:
        from npuscope.report.sweep import sweep_parquet

        write_whole(parquet, sweep_parquet(rows))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


@verb
def export(
    source: Source,
    *,
    model_explorer: str | Path | None = None,
    netron: str | Path | None = None,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Export:
    """What each layer of a model costs, for the viewers of others.

    In: a model, or a compiled program or a saved profile with its `model`. Out: costs by node,
    and the files that were written for Model Explorer and Netron.

    >>> npuscope.export("model.onnx", netron="costs.onnx").files
    """
    from npuscope.report.export_drawing import export_files, subject_of

    if not (model_explorer or netron):
        raise UsageError("nothing to write", hint="give --model-explorer FILE or --netron FILE")
    profile, own = _profile_of(source, options)
    graph = own or _shown_graph(model, options)
    path = source if own else model
    if path is None or not isinstance(path, (str, Path)):
        raise UsageError("a Graph has no model file to annotate", hint="give the model file")
    return export_files(subject_of(Path(path), graph, profile), model_explorer, netron)


def _profile_of(source: Source, options: Options) -> tuple[Profile, Graph | None]:
    """Times of the source, and the network if the source is a model."""
    from npuscope.building import build
    from npuscope.profiling.run import estimate
    from npuscope.profiling.saved import is_saved_profile, read_profile

    if isinstance(source, (str, Path)) and is_saved_profile(source):
        return read_profile(source), None
    made = build(source, options)
    return estimate(made.program, made.machine, made.graph), made.graph


def _shown_graph(model: str | Path | None, options: Options) -> Graph:
    if model is None:
        raise UsageError(
            "a compiled program and a saved profile are shown on their model",
            where="--model",
            hint="give the .tflite or .onnx file it was compiled from",
        )
    from npuscope.files.load import load_model

    return load_model(model, options.get("shapes"))
