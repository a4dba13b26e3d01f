"""The package's face: its names, and how nouns show themselves, are saved and come back."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError, UsageError
from npuscope.loadable.deploy import DeployedStep, Deployment, DeployStep
from npuscope.rulebook.finding import Findings
from npuscope.shown import Shown, data_frame, html_table
from npuscope.structs import replace
from npuscope.verbs.table import NAMES as VERBS
from npuscope.verbs.table import PYTHON_ONLY

SOURCE = Path(npuscope.__file__).parent
NOUNS = {"Graph", "Machine", "Program", "Profile", "Finding"}
LOADERS = {"load", "load_machine", "load_model"}


def test_dir_shows_verbs_and_nouns() -> None:
    renamed = {"board": "board_serve"}
    verbs = {renamed.get(v, v.replace(" ", "_")) for v in VERBS if v != "manycore"}
    expected = verbs | set(PYTHON_ONLY) | NOUNS | LOADERS | {"__version__", "NpuscopeError"}
    assert set(dir(npuscope)) == expected
    assert all(getattr(npuscope, name) is not None for name in dir(npuscope))


def test_no_module_has_the_name_of_a_verb() -> None:
    modules = {path.name.removesuffix(".py") for path in SOURCE.iterdir()}
    assert not modules & {verb.partition(" ")[0] for verb in VERBS}


def test_verbs_are_callable_whatever_was_imported_before() -> None:
    code = (
        "import npuscope\n"
        "import npuscope.rulebook.registry, npuscope.demo_network, npuscope.profiling.model\n"
        "for verb in (npuscope.rules, npuscope.demo, npuscope.profile): assert callable(verb)\n"
        "assert npuscope.rules('NA-SOFTMAX')[0].id == 'NA-SOFTMAX'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=_environment())


def test_the_package_runs_as_a_module() -> None:
    words = [sys.executable, "-m", "npuscope", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=_environment())
    assert done.stdout == f"npuscope {npuscope.__version__}\n"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE.parent)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("nouns"), "net.tflite", to_tflite(mobilenet_like()))


@pytest.fixture(scope="module")
def shown(model: Path) -> dict[str, Shown]:
    found = npuscope.explain(model)
    return {
        "graph": npuscope.load_model(model),
        "machine": npuscope.load_machine(),
        "program": npuscope.compile(model),
        "profile": found.profile,
        "finding": found.findings[0],
        "findings": npuscope.lint(model),
        "explanation": found,
        "comparison": npuscope.compare(model, b_options={"generation": "2.2"}),
        "gate": npuscope.gate(model, most={"total_ms": 1000}),
        "validation": npuscope.validate(model),
        "bisection": npuscope.bisect(model),
        "what-if": npuscope.what_if(model, {"clocks.npu_mhz": 500}),
        "doctor": npuscope.doctor(),
        "inspection": npuscope.inspect(model),
        "machines": npuscope.machines(),
        "rules": npuscope.rules(),
        "sensitivity": npuscope.sensitivity(model),
        "deployment": Deployment([DeployedStep(DeployStep("reset the board"), "done")]),
    }


def test_a_repr_is_one_short_line(shown: dict[str, Shown]) -> None:
    for name, value in shown.items():
        text = repr(value)
        assert text.startswith(f"<{type(value).__name__} "), name
        assert "\n" not in text
        assert len(text) < 250, text


def test_a_repr_says_what_matters(shown: dict[str, Shown]) -> None:
    profile = npuscope.estimate(demo_graph())
    assert repr(profile) == f"<Profile demo: {profile.total_ms:.3f} ms (estimate), 21 HW, 1 SW>"
    assert "stm32n6, generation 4.0, NPU at 1000 MHz" in repr(shown["machine"])


def test_notebooks_get_a_table(shown: dict[str, Shown]) -> None:
    for name, value in shown.items():
        html = value._repr_html_()
        assert html.startswith(f"<p>{type(value).__name__}: "), name
        assert ("<table>" in html) == bool(value.table()), name


def test_names_in_a_table_are_text() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J"
    html = html_table(hostile, [{hostile: hostile}])
    assert "<script>" not in html
    assert "\x1b" not in html
    graph = demo_graph()
    graph.name = hostile
    assert "\x1b" not in repr(graph)
    assert "<script>" not in graph._repr_html_()


def test_long_tables_are_cut() -> None:
    html = html_table("many", [{"n": number} for number in range(25)])
    assert html.count("<tr>") == 1 + 20
    assert html.endswith("<p>and 5 more</p>")


def test_rows_of_a_table_have_the_same_columns(shown: dict[str, Shown]) -> None:
    for name, value in shown.items():
        columns = {tuple(row) for row in value.table()}
        assert len(columns) <= 1, name


def results_of(function: Callable[..., object]) -> Iterator[type]:
    """The classes that a function says it gives; of a tuple its values' class."""
    told = str(inspect.signature(function).return_annotation)
    for name in re.findall(r"(?!None)[A-Z]\w+", told):
        homes = [p for p in SOURCE.rglob("*.py") if f"\nclass {name}(" in p.read_text("utf-8")]
        assert homes, name
        path = homes[0].relative_to(SOURCE.parent).with_suffix("")
        yield getattr(importlib.import_module(".".join(path.parts)), name)


ROWS_OF_SEVERAL = {"DeployedStep", "Sensitivity"}  # their verbs give them as one value


@pytest.mark.parametrize(
    "name", sorted(set(npuscope.__all__) - NOUNS - {"__version__", "NpuscopeError"})
)
def test_what_a_verb_gives_is_shown_in_a_notebook(name: str) -> None:
    for kind in results_of(getattr(npuscope, name)):
        assert issubclass(kind, Shown) or kind.__name__ in ROWS_OF_SEVERAL, kind


def test_a_row_of_a_profile_has_share_phases_and_bytes(shown: dict[str, Shown]) -> None:
    profile = shown["profile"]
    assert isinstance(profile, npuscope.Profile)
    rows = profile.table()
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    for row, epoch in zip(rows, profile.epochs, strict=True):
        assert row["pre_ms"] + row["core_ms"] + row["post_ms"] == pytest.approx(epoch.ms)
    moved = sum(row.read_bytes for e in profile.epochs for row in e.counters.traffic)
    assert sum(row["read_bytes"] for row in rows) == moved > 0
    assert all(row["written_bytes"] > 0 for row in rows if row["kind"] == "HW")


COLUMNS = {
    "profile": "epoch kind ms share pre_ms core_ms post_ms read_bytes written_bytes bound "
    "core_cycles ops origin provenance",
    "findings": "rule severity title epoch ops cause fixes gain_ms",
    "comparison": "ops a_ms b_ms delta_ms cause",
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_stay(name: str, shown: dict[str, Shown]) -> None:
    """New ones may be added at the end of a line here; notebooks of others use the names."""
    assert " ".join(shown[name].table()[0]) == COLUMNS[name]


def test_data_frames(shown: dict[str, Shown]) -> None:
    pytest.importorskip("pandas")
    for name in ("profile", "findings", "comparison"):
        value = shown[name]
        frame = value.to_dataframe()
        assert len(frame) == len(value.table())
        assert list(frame.columns) == list(value.table()[0])


def test_data_frames_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="data frames need pandas"):
        data_frame([])


@pytest.mark.parametrize("name", ["machine", "profile", "findings"])
def test_what_is_saved_is_loaded(name: str, shown: dict[str, Shown], tmp_path: Path) -> None:
    value = shown[name]
    value.save(tmp_path / "it.json")  # type: ignore[attr-defined]
    assert npuscope.load(tmp_path / "it.json") == value


def test_a_finding_and_a_program_are_saved(shown: dict[str, Shown], tmp_path: Path) -> None:
    finding, program = shown["finding"], shown["program"]
    finding.save(tmp_path / "one.json")  # type: ignore[attr-defined]
    (found,) = npuscope.load(tmp_path / "one.json")  # type: ignore[misc]
    assert found.rule == finding.rule  # type: ignore[attr-defined]
    program.save(tmp_path / "program")  # type: ignore[attr-defined]
    assert npuscope.load(tmp_path / "program") == program


def test_models_and_machine_files_are_loaded(model: Path) -> None:
    assert isinstance(npuscope.load(model), npuscope.Graph)
    assert npuscope.load(SOURCE / "machine" / "stm32n6.toml") == npuscope.load_machine()
    with pytest.raises(FileError, match="no such file"):
        npuscope.load("none.json")


@pytest.mark.parametrize(
    "change",
    [{"severity": "awful"}, {"epoch": "3"}, {"fixes": [{}]}, {"rule": 5}, {"ops": None}],
    ids=str,
)
def test_a_damaged_finding_is_told_with_its_place(
    change: dict[str, object], shown: dict[str, Shown], tmp_path: Path
) -> None:
    path = tmp_path / "it.json"
    shown["findings"].save(path)  # type: ignore[attr-defined]
    record = json.loads(path.read_text())
    record["findings"][1] |= change
    path.write_text(json.dumps(record))
    with pytest.raises(FileError, match="is not a finding") as caught:
        npuscope.load(path)
    assert "$.findings[1]" in caught.value.where


@pytest.mark.parametrize("key", ["clocks", "pools"])
def test_a_damaged_machine_is_told(key: str, tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    npuscope.load_machine().save(path)
    record = json.loads(path.read_text())
    record["machine"][key] = 7
    path.write_text(json.dumps(record, indent=1))
    with pytest.raises(FileError) as caught:
        npuscope.load(path)
    assert str(path) in caught.value.where


def test_a_machine_that_cannot_be_is_refused(tmp_path: Path) -> None:
    machine = npuscope.load_machine()
    broken = replace(machine, clocks=replace(machine.clocks, npu_mhz=-5.0))
    broken.save(tmp_path / "it.json")
    with pytest.raises(FileError):
        npuscope.load(tmp_path / "it.json")


def test_findings_stay_a_tuple(shown: dict[str, Shown]) -> None:
    findings = shown["findings"]
    assert isinstance(findings, Findings)
    assert findings == tuple(findings)


def test_editors_and_mypy_know_every_name() -> None:
    """What is loaded late is imported for them, under the same names."""
    verbs = late_names(SOURCE / "verbs" / "__init__.py")
    assert verbs == set(npuscope.verbs.__all__)
    others = late_names(SOURCE / "__init__.py")
    assert others - {"*"} | verbs == set(npuscope.__all__) - {"__version__"}


def late_names(path: Path) -> set[str]:
    (known,) = (
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If)
    )
    return {a.name for n in known.body if isinstance(n, ast.ImportFrom) for a in n.names}


@pytest.mark.parametrize("name", ["estimate", "doctor", "asm"])
def test_a_verb_is_reached_without_numpy(name: str) -> None:
    code = f"import sys, npuscope; npuscope.{name}; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=_environment())
