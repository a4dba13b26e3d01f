"""`npuscope sweep SPEC.toml` and `npuscope sweep report STORE`: many runs, and their report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag, real, text, whole
from npuscope.options.rows import OUTPUT, SWEEP_REPORT
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.sweep.drive import Sweep, Watch
    from npuscope.advice.sweep.options import SweepOptions, Tls
    from npuscope.report.sweep import StoreReport

# One option per row is easier to read than the formatter's layout.
# fmt: off
RUNS = OptionGroup("runs", (
    file("store", "the store (default: SPEC.jsonl beside SPEC.toml)", "STORE",
        flags=("-o", "--output")),
    whole("jobs", "number of processes (default: one per core)"),
    real("timeout", "fail a run that takes longer than S seconds", "S"),
    flag("retry_failed", "repeat failed runs of the store"),
    flag("yes", "allow more than 10,000 runs"),
    text("watch", "called with a Tally after every run", "FUNCTION", shell=False),
    text("options", "all of these as one SweepOptions", "RECORD", shell=False),
))
CLUSTER = OptionGroup("dask cluster", (
    text("scheduler", "tcp://HOST:PORT or tls://HOST:PORT of a scheduler", "ADDRESS"),
    whole("local_cluster", "a cluster of N workers on this computer"),
    file("tls_ca", "certificate authority of tls://"),
    file("tls_cert", "our certificate for tls://"),
    file("tls_key", "the key of our certificate"),
    flag("dashboard", "serve dask's dashboard for --local-cluster, on loopback"),
))
VERB = Verb(
    "many models, machines and options: one row per run, resumable",
    (
        Argument("targets", "SPEC.toml | report STORE",
            "the sweep file with the runs to do, or `report` and the store with their results", "+",
            (), False),
    ),
    (
        OptionGroup("", (file("spec", "the sweep file", shell=False),)),
        RUNS,
        CLUSTER,
        SWEEP_REPORT,
        OUTPUT,
    ),
    run="run_or_report",
    text="npuscope.report.sweep:sweep_text",
    json="npuscope.report.sweep:sweep_json",
    code="failed_code",
    reads=("targets", "store"),
    usage="npuscope sweep [options] SPEC.toml\n       npuscope sweep report [options] STORE",
)
# fmt: on


@checked(VERB)
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

    In: the sweep file (TOML) and the `store` (JSONL; SPEC.jsonl beside it). `watch` is called after
    every run. Out: counts and rows. With a local cluster a script needs the usual
    `if __name__ == "__main__"`.

    >>> npuscope.sweep("sweep.toml", jobs=2).rows
    """
    from npuscope.advice.sweep.drive import sweep as run_sweep
    from npuscope.advice.sweep.options import SweepOptions
    from npuscope.report.result_files import check_parquet, write_sweep

    request = options or SweepOptions(
        jobs=jobs,
        scheduler=scheduler,
        local_cluster=local_cluster,
        tls=_tls(tls_ca, tls_cert, tls_key),
        dashboard=dashboard,
        timeout_s=timeout,
        retry_failed=retry_failed,
        yes=yes,
    )
    check_parquet(parquet)
    result = run_sweep(spec, store, request, watch or (lambda tally: None))
    write_sweep(result.rows, result.store, html=html, csv=csv, parquet=parquet)
    return result


def _tls(*files: str | Path | None) -> Tls | None:
    from npuscope.advice.sweep.options import Tls

    if not any(files):
        return None
    if not all(files):
        raise UsageError("--tls-ca, --tls-cert and --tls-key go together")
    return Tls(*map(str, files))


# --- The two forms of the command line ---


def run_or_report(
    targets: list[str],
    *,
    store: str | None = None,
    json: str | None = None,
    quiet: bool = False,
    html: str | None = None,
    csv: str | None = None,
    parquet: str | None = None,
    **of_runs: Any,
) -> Sweep | StoreReport:
    files: dict[str, Any] = {"html": html, "csv": csv, "parquet": parquet}
    if targets[0] == "report":
        _check_report(targets, {"store": store, **of_runs})
        from npuscope.report.sweep import StoreReport
        from npuscope.verbs.sweep_report import sweep_report

        return StoreReport(sweep_report(targets[1], **files), targets[1])
    if len(targets) > 1:
        raise UsageError(f"one sweep file at a time, found {len(targets)}")
    from npuscope.advice.sweep.drive import default_store
    from npuscope.progress import kept_at_interrupt
    from npuscope.report.sweep_progress import watching

    spec = Path(targets[0])
    place = Path(store) if store else default_store(spec)
    # The store may be a name that does not exist yet.
    if place.resolve() == spec.resolve():
        raise UsageError("this is the input file", where=f"-o {store or place}")
    for name, path in {"json": json, **files}.items():
        if path is not None and Path(path).resolve() == place.resolve():
            raise UsageError("this is the input file", where=f"--{name} {path}")
    with (
        kept_at_interrupt(f"finished runs are in {safe_terminal(str(place))}"),
        watching(quiet) as watch,
    ):
        return sweep(spec, place, watch=watch, **files, **of_runs)


def _check_report(targets: list[str], of_runs: dict[str, Any]) -> None:
    if len(targets) != 2:
        raise UsageError(
            f"expected one store, found {len(targets) - 1}", hint="npuscope sweep report STORE"
        )
    for option in (*RUNS.options, *CLUSTER.options):
        if of_runs.get(option.name):
            raise UsageError(
                "this option is for running a sweep, not for its report", where=option.long
            )


def failed_code(result: Sweep | StoreReport) -> int:
    from npuscope.advice.sweep.drive import Sweep

    return 1 if isinstance(result, Sweep) and result.failed else 0
