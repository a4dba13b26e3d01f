"""`npuscope demo`: compile, simulate, profile and explain a built-in network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.families.registry import family_for
from npuscope.options.kinds import OptionGroup, Verb, file
from npuscope.options.rows import BUILT_IN, OUTPUT, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.explanation import Explanation
    from npuscope.building import Options
    from npuscope.report.demo import Demo

# fmt: off
VERB = Verb(
    "try npuscope on a built-in network: compile, simulate, profile",
    (),
    (
        OptionGroup("", (
            file("directory", "folder for the reports (default npuscope-demo)", "DIR",
                default="npuscope-demo", flags=("-o", "--output")),
        )),
        TARGET,
        BUILT_IN,
        OUTPUT,
    ),
    run="show",
    text="npuscope.report.demo:demo_text",
    json="npuscope.report.demo:demo_json",
    busy="compiling and running the built-in network",
    all_families=True,
)
# fmt: on


@checked(VERB)
def demo(directory: str | Path = "npuscope-demo", **options: Unpack[Options]) -> Explanation:
    """Try npuscope on a built-in network: compile, simulate, profile, explain.

    In: the folder for the reports. Out: the run with its findings.

    >>> npuscope.demo("demo").verdict
    """
    return show(directory, **options).explanation


def show(directory: str | Path, **options: Unpack[Options]) -> Demo:
    from npuscope.demo_network import demo_graph
    from npuscope.report.demo import Demo, write_demo
    from npuscope.whole_file import new_folder

    graph = demo_graph()
    family = family_for(None, options)
    explanation = family.explain(graph, {**options, "batch": 1})
    with new_folder(directory) as folder:
        program = explanation.build.program if explanation.build else None
        write_demo(folder.path, program, explanation)
        if program is None:
            family.write(family.compile(graph, options), folder.path / "program", options)
    return Demo(explanation, folder.kept)
