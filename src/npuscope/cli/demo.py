"""`npuscope demo`: the main job on a built-in network."""

from __future__ import annotations

import argparse

from npuscope.cli.options import add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, dump, working, write_file
from npuscope.whole_file import fresh, new_folder

_DEFAULT_FOLDER = "npuscope-demo"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        default=_DEFAULT_FOLDER,
        metavar="DIR",
        help=f"folder for the reports (default {_DEFAULT_FOLDER})",
    )
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from npuscope import api
    from npuscope.advice.explain import explain
    from npuscope.demo import demo_graph
    from npuscope.profile.run import profile as run_profile
    from npuscope.program.serialize import save
    from npuscope.report.html.data import profile_page
    from npuscope.report.json_report import profile_json
    from npuscope.report.profile_trace import trace_of_profile
    from npuscope.report.text_estimate import estimate_text
    from npuscope.report.text_explain import explain_text
    from npuscope.report.text_profile import profile_text
    from npuscope.report.trace.perfetto import write_perfetto

    with working(args, "compiling and running the built-in network"):
        made = api.build(demo_graph(), api_options(args))
        profile = run_profile(made.program, made.machine, made.graph)
        explanation = explain(made, profile)
        reasons, result = explain_text(explanation), profile_json(profile, explanation.findings)
        with new_folder(args.output) as made_folder:
            folder = made_folder.path
            save(made.program, folder / "program")
            text = f"{profile_text(profile, full=True)}\n{reasons}"
            write_file(folder / "report.txt", text)
            write_file(folder / "report.json", dump(result))
            page = profile_page(profile, explanation.findings, made, explanation.verdict)
            write_file(folder / "report.html", page)
            with fresh(folder / "report.perfetto-trace") as file:
                write_perfetto(trace_of_profile(profile, made.program), file)
    names = "report.txt, report.json, report.html, report.perfetto-trace and program/"
    where = f"{names} are in {args.output}"
    text = "\n".join((estimate_text(profile), reasons, where, *made_folder.kept))
    deliver(args, text, result)
    return 0
