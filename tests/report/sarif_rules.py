"""The parts of the SARIF 2.1.0 schema that our files use, written down by hand.

Every object of the schema refuses keys that it does not know, so that a misspelt one is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any, str], None]
LEVELS = ("none", "note", "warning", "error")
# RFC 3986: no spaces, quotes, backslashes, controls or stray percent signs.
URI = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=:@/?#-]|%[0-9A-Fa-f]{2})+")


class Invalid(Exception):
    """Where, and what."""


def fail(where: str, what: str) -> None:
    raise Invalid(f"{where}: {what}")


def text(value: Any, where: str) -> None:
    if not isinstance(value, str) or not value:
        fail(where, "no text")


def number(value: Any, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        fail(where, "no number")


def line(value: Any, where: str) -> None:
    number(value, where)
    if value < 1:
        fail(where, "lines count from 1")


def flag(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        fail(where, "no flag")


def bag(value: Any, where: str) -> None:
    """A property bag: any object; `tags` in it are different texts."""
    if not isinstance(value, dict):
        fail(where, "no object")
    tags = value.get("tags", [])
    if len(set(tags)) != len(tags):
        fail(where, "a tag twice")


def uri(value: Any, where: str) -> None:
    text(value, where)
    has_scheme = re.match(r"[^/]*:", value) is not None
    if not URI.fullmatch(value) or (has_scheme and not value.startswith("file:///")):
        fail(where, f"no URI reference: {value!r}")


def message_text(value: Any, where: str) -> None:
    """Braces are doubled, and brackets make no link."""
    text(value, where)
    rest = value.replace("{{", "").replace("}}", "")
    if "{" in rest or "}" in rest or "](" in value:
        fail(where, "a placeholder or a link")


def one_of(*values: str) -> Check:
    def check(value: Any, where: str) -> None:
        if value not in values:
            fail(where, f"{value!r} is none of {values}")

    return check


def each(check: Check, *, least: int = 0) -> Check:
    def check_all(value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            fail(where, "no list, or too short")
        for i, item in enumerate(value):
            check(item, f"{where}[{i}]")

    return check_all


def table(known: Mapping[str, Check], *required: str) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            fail(where, "no object")
        for key in required:
            if key not in value:
                fail(where, f"{key} is missing")
        for key, item in value.items():
            if key not in known:
                fail(where, f"{key} is unknown")
            known[key](item, f"{where}.{key}")

    return check


def by_name(check: Check) -> Check:
    def check_all(value: Any, where: str) -> None:
        for key, item in value.items():
            check(item, f"{where}.{key}")

    return check_all


message = table({"text": message_text}, "text")
artifact_location = table({"uri": uri, "index": number})
physical = table(
    {"artifactLocation": artifact_location, "region": table({"startLine": line}, "startLine")},
    "artifactLocation",
)
logical = table({"name": text, "fullyQualifiedName": text, "kind": text})
location = table({"physicalLocation": physical, "logicalLocations": each(logical)})
rule = table(
    {
        "id": text,
        "shortDescription": message,
        "fullDescription": message,
        "help": message,
        "defaultConfiguration": table({"level": one_of(*LEVELS)}),
        "properties": bag,
    },
    "id",
)
driver = table(
    {"name": text, "version": text, "semanticVersion": text, "rules": each(rule)}, "name"
)
result = table(
    {
        "ruleId": text,
        "ruleIndex": number,
        "level": one_of(*LEVELS),
        "message": message,
        "locations": each(location),
        "partialFingerprints": by_name(text),
        "properties": bag,
    },
    "message",
)
run = table(
    {
        "tool": table({"driver": driver}, "driver"),
        "automationDetails": table({"id": text}),
        "invocations": each(table({"executionSuccessful": flag}, "executionSuccessful")),
        "artifacts": each(
            table({"location": artifact_location, "roles": each(one_of("analysisTarget"))})
        ),
        "results": each(result),
        "properties": bag,
    },
    "tool",
)
log = table({"$schema": text, "version": one_of("2.1.0"), "runs": each(run)}, "version", "runs")


def check_sarif(found: Any) -> None:
    """Shape, and that indices point where ids say."""
    log(found, "$")
    for one in found["runs"]:
        rules = [entry["id"] for entry in one["tool"]["driver"]["rules"]]
        if len(set(rules)) != len(rules):
            fail("rules", "an id twice")
        for entry in one["results"]:
            if rules[entry["ruleIndex"]] != entry["ruleId"]:
                fail(entry["ruleId"], "its index is that of another rule")
