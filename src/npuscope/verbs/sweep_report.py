"""`npuscope sweep report STORE`: the report on many runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import FileError
from npuscope.options.kinds import Argument, Verb
from npuscope.options.rows import OUTPUT, SWEEP_REPORT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.sweep.summary import Summary

VERB = Verb(
    "evaluate a store: best runs, latency against memory, failures",
    (Argument("store", "STORE", "the store with the results of a sweep"),),
    (SWEEP_REPORT, OUTPUT),
)


@checked(VERB)
def sweep_report(
    store: str | Path,
    *,
    html: str | Path | None = None,
    csv: str | Path | None = None,
    parquet: str | Path | None = None,
) -> Summary:
    """Report on a store of runs: best runs, latency against memory, failures.

    In: the JSONL file that `sweep` wrote. Out: models with their best runs and fronts; tables and
    a page as files on request.

    >>> npuscope.sweep_report("sweep.jsonl", html="sweep.html").models
    """
    from npuscope.advice.sweep.journal import read_rows
    from npuscope.advice.sweep.summary import summarise
    from npuscope.report.result_files import check_parquet, write_sweep

    check_parquet(parquet)
    rows = read_rows(Path(store))
    if not rows:
        raise FileError("this store holds no runs yet", where=str(store))
    write_sweep(rows, Path(store), html=html, csv=csv, parquet=parquet)
    return summarise(rows)
