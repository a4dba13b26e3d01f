"""JUnit: well-formed, counted right, failures by severity, names that mean harm."""

from __future__ import annotations

from xml.etree import ElementTree

from npuscope.report.findings_files import Checked, junit_xml
from npuscope.rulebook.finding import Finding, Hit, Severity
from npuscope.rulebook.registry import make_finding, rule
from report.hostile import hostile_findings


def suite(checked: Checked) -> ElementTree.Element:
    root = ElementTree.fromstring(junit_xml(checked).encode())
    assert root.tag == "testsuites"
    (only,) = root
    return only


def finding(severity: Severity, *ops: str) -> Finding:
    info = rule("NA-SOFTMAX")
    assert info is not None
    return make_finding(info, Hit(ops, value="(1, 5)", epoch=3, severity=severity))


def test_a_clean_network_passes_every_rule() -> None:
    checked = Checked("lint", "m.tflite", "4.0", ())
    found = suite(checked)
    assert found.attrib["name"] == "npuscope lint m.tflite"
    assert found.attrib["failures"] == "0"
    assert int(found.attrib["tests"]) == len(found.findall("testcase")) == len(checked.rules)


def test_severities() -> None:
    found = suite(
        Checked("explain", "m", "4.0", tuple(finding(severity, "a") for severity in Severity))
    )
    failures = [failure.attrib["type"] for failure in found.iter("failure")]
    assert failures == ["error", "warning"]
    assert found.attrib["failures"] == "2"
    (note,) = found.iter("system-out")
    assert (
        note.text is not None and "fix: pass --expand-softmax to the vendor's compiler" in note.text
    )


def test_every_finding_is_a_case_with_a_name_of_its_own() -> None:
    findings = (
        finding(Severity.ERROR, "a"),
        finding(Severity.ERROR, "a", "b"),
        *hostile_findings(),
    )
    found = suite(Checked("explain", "m", "4.0", (*findings, *findings)))
    cases = [(case.attrib["classname"], case.attrib["name"]) for case in found.iter("testcase")]
    assert len(set(cases)) == len(cases)
    told = sum(len(case) > 0 for case in found.iter("testcase"))
    assert told == 2 * len(findings)


def test_hostile_names_stay_text() -> None:
    findings = hostile_findings()
    found = suite(Checked("explain", "a\x1b\"'<&\n\u202e.tflite", "4.0", findings))
    tags = {element.tag for element in found.iter()}
    assert tags == {"testsuite", "properties", "property", "testcase", "failure", "system-out"}
    assert len(list(found.iter("failure"))) == sum(f.is_problem for f in findings)
    for element in found.iter():
        for text in (*element.attrib.values(), element.text or "", element.tail or ""):
            assert text.replace("\n", "").isprintable()
