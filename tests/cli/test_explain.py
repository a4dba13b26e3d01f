"""explain, lint and rules on the command line: text, JSON, exit codes, hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import npuscope
from models import Net, mobilenet_like, save, to_onnx, to_tflite
from models_tflite import TfliteWriter
from npuscope.cli.main import main
from npuscope.rulebook.finding import Findings, Severity
from npuscope.verbs.lint import risk_code

Capture = pytest.CaptureFixture[str]
FINDING_KEYS = {
    "rule",
    "severity",
    "title",
    "epoch",
    "ops",
    "evidence",
    "cause",
    "fixes",
    "confidence",
    "since",
    "until",
    "docs",
}
FIX_KEYS = {
    "id",
    "title",
    "parameters",
    "automatic",
    "gain_ms",
    "training",
    "function",
    "gain_basis",
    "moves",
}


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A softmax at the end, and a zero point of -3 at the input."""
    return save(tmp_path, "slow.tflite", to_tflite(mobilenet_like()))


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    net = Net((1, 32, 32, 3), input_scale=1 / 128, input_zero_point=0)
    net.conv(16, stride=2)
    net.conv(32, kernel=1)
    net.conv(0, depthwise=True)
    return save(tmp_path, "clean.tflite", to_tflite(net))


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_clean_network_has_no_findings(clean: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "explain", clean, "--json")
    assert (code, json.loads(out)["findings"], json.loads(out)["changes"]) == (0, [], [])


def test_explain_as_json(slow: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "explain", slow, "--json")
    found = json.loads(out)
    assert (code, found["schema"]) == (0, "npuscope/explain/1")
    assert {"verdict", "model", "machine", "total_ms", "time", "counts", "changes"} <= set(found)
    assert all(set(finding) == FINDING_KEYS for finding in found["findings"])
    assert all(set(fix) == FIX_KEYS for finding in found["findings"] for fix in finding["fixes"])
    assert all({"value", "limit"} <= set(finding["evidence"]) for finding in found["findings"])
    (softmax,) = (f for f in found["findings"] if f["evidence"].get("kind") == "SW")
    assert softmax["rule"].startswith("NA-")
    assert softmax["evidence"]["ms"] > 0
    assert softmax["ops"] == ["SOFTMAX:#10"]


def test_lint_as_json(slow: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "lint", slow, "--json", "--generation", "2.2")
    found = json.loads(out)
    assert code == 1
    assert (found["schema"], found["generation"]) == ("npuscope/lint/1", "2.2")
    assert all(set(finding) == FINDING_KEYS for finding in found["findings"])
    assert {finding["epoch"] for finding in found["findings"]} == {None}


@pytest.mark.parametrize(
    ("mildest", "code"), [("error", 0), ("warning", 1), ("info", 1), ("never", 0)]
)
def test_lint_lets_mild_findings_pass(mildest: str, code: int, slow: Path, capsys: Capture) -> None:
    assert ": 0 errors, 1 warning," in run(capsys, "lint", slow)[1]
    assert run(capsys, "lint", slow, "--fail-on", mildest)[0] == code


def test_notes_alone_fail_only_where_asked(slow: Path) -> None:
    notes = Findings(f for f in npuscope.lint(slow) if f.severity is Severity.INFO)
    assert notes
    codes = [risk_code(notes, mildest) for mildest in ("error", "warning", "info", "never")]
    assert codes == [0, 0, 1, 0]


def test_lint_sees_the_file_too(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path, "net_OE_3_2_0.onnx", to_onnx(mobilenet_like(), opset=17))
    code, out, _ = run(capsys, "lint", path, "--generation", "2.2")
    assert code == 1
    assert "LINT-OE-FILE" in out
    assert "LINT-IR-VERSION" in out


@pytest.mark.parametrize("verb", ["explain", "lint"])
def test_a_bad_file_is_the_files_fault(verb: str, tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path, "cut.tflite", to_tflite(mobilenet_like())[:500])
    code, out, err = run(capsys, verb, path)
    assert (code, out) == (3, "")
    assert "Traceback" not in err


def test_rules_lists_all_and_shows_one(capsys: Capture) -> None:
    code, out, _ = run(capsys, "rules")
    assert code == 0
    assert " rules: " in out.splitlines()[0]
    assert "NA-CONV-PRIME" in out
    code, out, _ = run(capsys, "rules", "na-conv-prime")
    assert code == 0
    assert out.startswith("NA-CONV-PRIME: ")
    assert "see docs/rules/NA-CONV-PRIME.md" in out
    code, out, _ = run(capsys, "rules", "NA-CONV-PRIME", "--json")
    (rule,) = json.loads(out)["rules"]
    assert (rule["since"], rule["until"], rule["kind"]) == ("2.0", "4.0", "refuse")


def test_a_fix_in_general_has_no_values(capsys: Capture) -> None:
    _, out, _ = run(capsys, "rules", "ADV-CHANNELS")
    assert "fix: use <channels> output channels\n" in out


def hostile() -> bytes:
    """Names that would move the cursor, clear the screen or turn the text around."""
    writer = TfliteWriter()
    x = writer.tensor("in\x1b[2J\u202e", (1, 8), scale=0.1)
    unused = writer.tensor("un\x1b[31mused\n", (1, 8), scale=0.05)
    y = writer.tensor("out\r\x07", (1, 8), scale=1 / 256, zero_point=-128)
    writer.op("SOFTMAX", [x], [y])
    return writer.finish([x, unused], [y])


@pytest.mark.parametrize("verb", ["explain", "lint"])
def test_hostile_names_are_escaped(verb: str, tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path, "bad\x1b[2J.tflite", hostile())
    _, out, err = run(capsys, verb, path)
    assert "LINT-UNUSED-INPUT" in out
    assert r"un\x1b[31mused\n" in out
    text = (out + err).replace("\n", "")
    assert text.isprintable()
    _, out, _ = run(capsys, verb, path, "--json")
    ops = [name for finding in json.loads(out)["findings"] for name in finding["ops"]]
    assert "un\x1b[31mused\n" in ops


@pytest.mark.parametrize(("verb", "code"), [("explain", 0), ("lint", 1)])
def test_findings_as_files(
    verb: str, code: int, slow: Path, tmp_path: Path, capsys: Capture
) -> None:
    sarif, junit = tmp_path / "f.sarif", tmp_path / "f.xml"
    plain = run(capsys, verb, slow)
    assert run(capsys, verb, slow, "--sarif", sarif, "--junit", junit) == plain
    assert plain[0] == code
    (log,) = json.loads(sarif.read_text())["runs"]
    told = [result["ruleId"] for result in log["results"]]
    _, out, _ = run(capsys, verb, slow, "--json")
    assert told == [finding["rule"] for finding in json.loads(out)["findings"]]
    suites = ElementTree.fromstring(junit.read_text())
    assert suites.attrib["failures"] == "1"
    assert suites[0].attrib["name"] == f"npuscope {verb} {slow}"


@pytest.mark.parametrize("option", ["--sarif", "--junit"])
@pytest.mark.parametrize("verb", ["explain", "lint"])
def test_a_findings_file_does_not_replace_the_model(
    verb: str, option: str, slow: Path, capsys: Capture
) -> None:
    before = slow.read_bytes()
    code, _, err = run(capsys, verb, slow, option, slow)
    assert (code, slow.read_bytes()) == (2, before)
    assert "this is the input file" in err


def test_a_file_that_cannot_be_written(slow: Path, tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "lint", slow, "--junit", tmp_path / "none" / "f.xml")
    assert (code, out) == (74, "")
    assert "cannot be written" in err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--machine", "ethos-u55-128", "--optimise", "Size"], "--optimise"),
        (["--machine", "ethos-u55-128", "--set", "clock_mhz=3"], "--set"),
        (["--machine", "cloudai100", "--objective", "latency"], "--objective"),
        (["--machine", "cloudai100", "--machine-file", "none.toml"], "none.toml"),
        (["--machine", "cloudai100", "--set", "clocks.nothing=3"], "clocks.nothing"),
    ],
)
def test_lint_takes_no_option_in_silence(
    slow: Path, words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "lint", slow, *words[:2])[0] in (0, 1)
    code, _, err = run(capsys, "lint", slow, *words)
    assert code in (2, 3) and named in err
