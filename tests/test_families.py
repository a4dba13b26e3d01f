"""One door for machines: names of all families, the verbs they share, and what they cannot do."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import npuscope
from many_core.nets import EncoderShape, encoder
from models import mobilenet_like, save, to_tflite
from npuscope.advice.catalogue import catalogue
from npuscope.advice.sweep.one_run import run_json
from npuscope.advice.sweep.runs import expand
from npuscope.advice.sweep.spec import read_spec
from npuscope.cli.main import main
from npuscope.errors import FileError, UsageError
from npuscope.families import registry
from npuscope.families.ethos_u.machine import machine_names
from npuscope.families.registry import GROUP, family_of
from npuscope.identify.table import formats
from npuscope.live import family_answers
from npuscope.live.family_library import FamilyLibrary
from npuscope.live.setting import first_setting

Capture = pytest.CaptureFixture[str]
COMMON = {"schema", "model", "machine", "total_ms", "interval_ms", "unknown_ops", "model_error",
    "inferences_per_s", "memory", "findings", "notes"}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(encoder(EncoderShape(batch=2)))
    return Path("net.onnx")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_all_machines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(answer(capsys, "machines", "--json"))["machines"]
    assert [one["name"] for one in found] == ["stm32n6", "cloudai100", *machine_names()]
    assert {key for one in found for key in one} - set(found[0]) == {"family"}
    assert "cloudai100: 16 cores" in answer(capsys, "machines")


def test_keys_of_all_machines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "machines", "--keys", "ddr")
    assert "ddr.effective_gb_per_s" in text and "cores.count" not in text
    found = json.loads(answer(capsys, "machines", "--keys", "ddr", "--json"))["machines"]
    assert {row["key"] for row in found[1]["keys"]} >= {"ddr.peak_gb_per_s", "ddr.latency_us"}


def test_an_estimate_has_the_first_lines_and_keys_of_all(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = answer(capsys, "estimate", "--machine", "cloudai100", str(model)).splitlines()
    assert lines[0].startswith("activations stay in VTCM; ") and "inf/s (predicted" in lines[0]
    assert [line.split()[0] for line in lines[1:4]] == ["machine", "model", "range"]
    assert lines[1].startswith("machine  cloudai100 (Cloud AI 100), ")
    assert lines[1].endswith(", 16 of 16 cores, batch 2")
    found = json.loads(answer(capsys, "estimate", "--machine", "cloudai100", str(model), "--json"))
    assert set(found) >= COMMON | {"engines", "verdict"}
    assert "counts" not in found
    low, high = found["interval_ms"]
    assert 0 < low <= found["total_ms"] <= high
    assert found["inferences_per_s"] == pytest.approx(2e3 / found["total_ms"], rel=1e-3)


def test_values_of_the_machine_can_be_set(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("estimate", "--machine", "cloudai100", str(model), "--set", "cores.count=2")
    assert ", 2 of 2 cores, " in answer(capsys, *words).splitlines()[1]


def test_python_refuses_in_the_same_sentence(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(model), "--machine", "cloudai100", "--batch", "2"]) == 2
    with pytest.raises(UsageError) as caught:
        npuscope.profile(model, machine="cloudai100", batch=2)
    assert capsys.readouterr().err == f"npuscope: {caught.value}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("quantize", "--data", "random"), "--machine: many-core machines do not support quantize"),
        (("profile", "--vendor-plan"), "--vendor-plan: this option does not apply to cloudai100"),
        (("estimate", "--generation", "2.2"), "this option does not apply to cloudai100"),
        (("estimate", "--sensitivity"), "this option does not apply to cloudai100"),
        (("estimate", "--npu-mhz", "500"), "--npu-mhz: this option does not apply to cloudai100"),
        (("estimate", "--flash", "octo-dtr-50"), "--flash: this option does not apply to cloudai"),
    ],
)
def test_what_a_family_cannot_do_is_said_in_one_sentence(
    model: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main((*words, "--machine", "cloudai100", str(model))) == 2
    assert message in capsys.readouterr().err


# --- A family from outside ---


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As an installed package with the entry point would bring it."""
    entry = EntryPoint("abacus", "toy_family:FAMILY", GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for kept in (registry.families, catalogue, formats):
        kept.cache_clear()


@pytest.mark.usefixtures("outside")
class TestOutside:
    """A family of 150 lines: every verb of all families knows it, and none was touched."""

    def test_its_machines_are_listed(self, capsys: Capture) -> None:
        assert "soroban: 13 rods" in answer(capsys, "machines")
        keys = json.loads(answer(capsys, "machines", "--keys", "rods", "--json"))["machines"]
        assert keys[-1] == {"name": "soroban", "keys": [{"key": "rods", "value": 13}]}

    def test_it_compiles_and_times(self, model: Path, capsys: Capture) -> None:
        text = answer(capsys, "estimate", "--machine", "suanpan", str(model))
        assert "machine  suanpan, 13 rods" in text
        assert "known error: as steady as the hand" in text
        slow = npuscope.estimate(model, machine="suanpan", overrides={"rods": 1}).total_ms
        assert slow == pytest.approx(13 * npuscope.estimate(model, machine="suanpan").total_ms)

    def test_it_explains_by_rules_of_its_own(self, model: Path, capsys: Capture) -> None:
        found = npuscope.explain(model, machine="suanpan")
        assert {finding.rule for finding in found.findings} == {"ABACUS-BY-HAND"}
        assert "ABACUS-BY-HAND" in answer(capsys, "explain", "--machine", "suanpan", str(model))
        assert "ABACUS-BY-HAND" in answer(capsys, "rules")

    def test_it_lints(self, model: Path) -> None:
        assert [finding.rule for finding in npuscope.lint(model, machine="suanpan")] == [
            "ABACUS-LARGE"
        ]

    def test_it_is_compared(self, model: Path) -> None:
        found = npuscope.compare(model, a_options={"machine": "suanpan"}, b_options={
            "machine": "suanpan", "overrides": {"rods": 26}})  # fmt: skip
        assert found.delta_ms == pytest.approx(-found.b.profile.total_ms)
        assert all(row.a and row.b for row in found.rows)

    def test_it_stands_in_a_table_of_machines(self, model: Path, capsys: Capture) -> None:
        words = ("compare", str(model), "--machines", "soroban,cloudai100")
        lines = answer(capsys, *words).splitlines()
        assert lines[0].startswith("net.onnx: fastest on cloudai100, ")
        assert [line.split()[0] for line in lines[2:]] == ["machine", "soroban", "cloudai100"]
        assert "An op is done by hand" in lines[3]

    def test_it_is_held_against_limits(self, model: Path, capsys: Capture) -> None:
        words = ("gate", "--machine", "suanpan", str(model), "--max", "moves=1")
        assert main(words) == 1
        assert capsys.readouterr().out.startswith("FAILED: moves is ")
        before = npuscope.gate(model, machine="suanpan", baseline=model)
        assert before.passed and {"total_ms", "SW"} <= {check.name for check in before.checks}

    def test_it_has_an_option_of_its_own(self, model: Path, capsys: Capture) -> None:
        words = ("estimate", "--machine", "suanpan", str(model))
        quick, slow = (
            json.loads(answer(capsys, *words, "--json", "--pace", pace))["total_ms"]
            for pace in ("quick", "slow")
        )
        assert slow == pytest.approx(2 * quick)
        options = {"machine": "suanpan", "pace": "slow"}
        assert npuscope.estimate(model, **options).total_ms == pytest.approx(slow)  # type: ignore[arg-type]
        by_side = ("compare", str(model), "--machine", "suanpan", "--b", "pace=slow", "--json")
        assert json.loads(answer(capsys, *by_side))["delta_ms"] == pytest.approx(quick, abs=1e-6)
        assert "how beads are moved" in answer(capsys, "estimate", "--help")
        assert "slow quick" in answer(capsys, "completion", "bash")

    def test_its_option_is_checked(self, model: Path, capsys: Capture) -> None:
        assert main(("estimate", str(model), "--machine", "suanpan", "--pace", "fast")) == 2
        assert "invalid choice: 'fast'" in capsys.readouterr().err
        with pytest.raises(UsageError, match="unknown value 'fast'"):
            npuscope.estimate(model, machine="suanpan", pace="fast")  # type: ignore[arg-type]
        for machine in ("stm32n6", "cloudai100"):
            assert main(("estimate", str(model), "--machine", machine, "--pace", "slow")) == 2
            message = f"--pace: this option does not apply to {machine}"
            assert message in capsys.readouterr().err

    def test_its_program_is_a_file_that_is_known(self, model: Path, capsys: Capture) -> None:
        text = answer(capsys, "compile", str(model), "--machine", "suanpan", "-o", "out")
        assert text == "1 file in out: net.beads\n"
        program = npuscope.compile(model, machine="suanpan")
        found = npuscope.inspect("out/net.beads")
        assert (found.kind, found.summary["moves"]) == ("beads", sum(program.moves))  # type: ignore[attr-defined]
        answer(capsys, "disasm", "out/net.beads", "-o", "beads.txt")
        assert Path("beads.txt").read_text().startswith("; net.beads\nmove ")
        answer(capsys, "asm", "beads.txt", "-o", "again.beads")
        assert Path("again.beads").read_bytes() == Path("out/net.beads").read_bytes()

    def test_its_arithmetic_is_validated(self, model: Path, capsys: Capture) -> None:
        assert npuscope.validate(model, machine="suanpan").verdict == "passed"
        text = answer(capsys, "validate", str(model), "--machine", "suanpan")
        assert text.startswith("passed: outputs within 0 LSB; ")
        with pytest.raises(UsageError, match="layers of this build cannot be compared"):
            npuscope.bisect(model, machine="suanpan")

    def test_a_run_is_reported_and_written(self, model: Path, capsys: Capture) -> None:
        files = ("--csv", "run.csv", "--trace", "run.perfetto-trace", "--html", "run.html")
        assert "ms" in answer(capsys, "profile", str(model), "--machine", "suanpan", *files)
        assert all(Path(name).stat().st_size for name in files[1::2])

    def test_edits_are_tried_timed_and_executed(self, capsys: Capture, tmp_path: Path) -> None:
        scores = str(save(tmp_path, "scores.tflite", to_tflite(mobilenet_like())))
        fixed = str(tmp_path / "fixed.tflite")
        words = ("fix", scores, "--machine", "suanpan", "--drop-softmax", "-o", fixed)
        lines = answer(capsys, *words).splitlines()
        assert [line for line in lines if line.startswith("executed passed: outputs within 0 LSB")]
        before, after = (
            npuscope.estimate(name, machine="suanpan").total_ms for name in (scores, fixed)
        )
        assert after < before
        step = npuscope.fix(scores, machine="suanpan", only=["ABACUS-BY-HAND"]).applied[0]
        assert step.candidate.rule == "ABACUS-BY-HAND" and step.saved_ms > 0

    def test_it_is_shown_live(self, tmp_path: Path) -> None:
        scores = save(tmp_path, "scores.tflite", to_tflite(mobilenet_like()))
        library = FamilyLibrary([scores], {"machine": "suanpan", "pace": "slow"})
        first = first_setting({"pace": "slow"}, 0, library.family.options)  # type: ignore[typeddict-unknown-key]
        assert '"choices":["slow","quick"]' in family_answers.first_page(library, first)
        plain = family_answers.report(library, {"own": [["pace", "slow"]]})
        assert plain["keys"] == {"rods": [13, ""]}
        assert "--machine suanpan" in plain["command"] and "--pace slow" in plain["command"]
        (offer,) = (row for row in plain["fixes"] if row["rule"] == "ABACUS-BY-HAND")
        question = {"fixes": [offer["id"]], "values": [["rods", "26"]]}
        fixed = family_answers.report(library, question)
        (step,) = (row for row in fixed["fixes"] if row["on"])
        assert step["id"] == offer["id"] and step["gain"] > 0
        assert fixed["report"]["total_ms"] < plain["report"]["total_ms"] / 4
        pair = family_answers.comparison(library, [{}, question])
        assert pair["delta_ms"] < 0
        with pytest.raises(UsageError, match="unknown value 'fast'"):
            family_answers.report(library, {"own": [["pace", "fast"]]})

    def test_it_is_served(self, model: Path) -> None:
        def ready(address: str) -> None:
            assert address.startswith("http://127.0.0.1:")
            raise KeyboardInterrupt

        npuscope.serve(model, machine="suanpan", ready=ready)
        with pytest.raises(UsageError, match="an abacus has rods"):
            npuscope.serve(model, machine="suanpan", overrides={"rods": 0}, ready=ready)

    def test_layers_are_exported(self, model: Path) -> None:
        npuscope.export(model, machine="suanpan", model_explorer="costs.json")
        assert "ms" in Path("costs.json").read_text()

    def test_what_it_lacks_is_said_in_one_sentence(self, model: Path, capsys: Capture) -> None:
        assert main(("quantize", str(model), "--data", "random", "--machine", "suanpan")) == 2
        assert capsys.readouterr().err == (
            "npuscope: --machine: abacus machines do not support quantize\n"
            "  hint: count on your fingers\n"
        )
        assert main(("estimate", str(model), "--machine", "suanpan", "--npu-mhz", "5")) == 2
        assert "--npu-mhz: this option does not apply to suanpan" in capsys.readouterr().err


def test_a_sweep_over_machines_of_another_family(model: Path) -> None:
    Path("sweep.toml").write_text(
        f'models = ["{model}"]\nmachines = ["cloudai100"]\n'
        '[[sets]]\n[[sets]]\nname = "few"\nset = {"cores.count" = 2}\n'
    )
    rows = npuscope.sweep("sweep.toml", jobs=1).rows
    assert [(row["status"], row["set"]) for row in rows] == [("ok", "default"), ("ok", "few")]
    direct = npuscope.estimate(model, machine="cloudai100").total_ms
    assert rows[0]["total_ms"] == pytest.approx(direct)
    assert rows[1]["total_ms"] != rows[0]["total_ms"]


@pytest.mark.usefixtures("outside")
def test_a_sweep_over_an_option_of_one_family(model: Path) -> None:
    Path("sweep.toml").write_text(
        f'models = ["{model}"]\nmachines = ["suanpan"]\nfindings = true\n'
        '[[sets]]\n[[sets]]\noptions = {pace = "slow"}\n'
    )
    # In this process: workers know the families that are installed.
    runs = expand(read_spec("sweep.toml"))
    quick, slow = (json.loads(run_json(run.task(with_path=True))) for run in runs)
    assert slow["set"] == "pace=slow" and slow["findings_warning"] > 0
    assert slow["total_ms"] == pytest.approx(2 * quick["total_ms"])
    Path("wrong.toml").write_text(Path("sweep.toml").read_text().replace("suanpan", "cloudai100"))
    with pytest.raises(FileError, match="this option does not apply to cloudai100"):
        expand(read_spec("wrong.toml"))


def test_machines_belong_to_their_family() -> None:
    assert family_of("stm32n6").name == "neural-art"
    assert family_of("cloudai100").name == "many-core"
    assert family_of("ethos-u85-1024").name == "ethos-u"
    assert family_of("nothing") is family_of(None) is family_of("stm32n6")


def test_a_name_that_no_family_has(model: Path, capsys: Capture) -> None:
    assert main(("estimate", str(model), "--machine", "cloudai1000")) == 2
    assert "known: stm32n6, cloudai100, ethos-u55-32, " in capsys.readouterr().err


def test_an_option_of_one_side_alone_is_checked_too(model: Path, capsys: Capture) -> None:
    own = ("--b", "machine=cloudai100", "--b", "generation=2.2")
    words = ("compare", str(model), "--a", "machine=cloudai100", *own)
    assert main(words) == 2
    assert "--generation: this option does not apply to cloudai100" in capsys.readouterr().err


def test_levers_are_tried_and_the_best_comes_first(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(answer(capsys, "estimate", "--machine", "cloudai100", str(model), "--json"))
    gains = [lever["gain"] for lever in found["levers"]]
    assert gains == sorted(gains, reverse=True) and min(gains) > 1.02
    names = {lever["name"] for lever in found["levers"]}
    assert "16 activations on 1 core each" in names
    text = answer(capsys, "estimate", "--machine", "cloudai100", str(model))
    assert f"lever    {found['levers'][0]['name']}: " in text


def test_what_the_second_half_of_the_cores_brings_is_told(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("estimate", "--machine", "cloudai100", str(model))
    half, every = json.loads(answer(capsys, *words, "--json"))["scaling"].values()
    assert (half["cores"], every["cores"]) == (8, 16)
    for side in (half, every):
        assert sum(side["path_us"].values()) == pytest.approx(1e3 * side["ms"], rel=0.3)
        assert side["unevenness"] >= 1
    lines = answer(capsys, *words).splitlines()
    (told,) = (line for line in lines if line.startswith("cores "))
    assert "8 -> 16 cores" in told and "synchronisation" in told


def test_the_same_in_python(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import npuscope

    timed = npuscope.estimate(model, machine="cloudai100")
    found = json.loads(answer(capsys, "estimate", "--machine", "cloudai100", str(model), "--json"))
    assert timed.total_ms == pytest.approx(found["total_ms"], abs=1e-6)
    assert timed.inferences_per_s == pytest.approx(found["inferences_per_s"], abs=1e-3)


def test_verbs_and_sweeps_ask_the_interface_and_know_no_family_by_name() -> None:
    """What only one family does is an attribute or a method of `Family`, so that a package outside
    this one can have it too."""
    packages = {place.split(":")[0].rpartition(".")[0] for place in registry.PACKAGED}
    machines = {name for family in registry.families() for name in family.machines()}
    folder = Path(npuscope.__file__).parent
    for path in (p for part in ("verbs", "advice", "cli") for p in (folder / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not str(node.module).startswith(tuple(packages)), path
                assert "first_family" not in {alias.name for alias in node.names}, path
            elif isinstance(node, ast.Constant):
                assert node.value not in machines, f"{path}:{node.lineno}"
