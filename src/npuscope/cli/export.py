"""`npuscope export SOURCE`: what layers cost, for the viewers of others."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.cli.options import SOURCE_HELP, add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, dump, refuse_overwrite, working
from npuscope.errors import FileError, UsageError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.graph.model import Graph
    from npuscope.profile.model import Profile
    from npuscope.report.export_costs import LayerCost
    from npuscope.report.export_nodes import SourceNode


@dataclass(frozen=True, slots=True)
class _Subject:
    """A model file with what its layers cost."""

    path: Path
    data: bytes
    graph: Graph
    nodes: tuple[SourceNode, ...]
    profile: Profile
    costs: dict[str, LayerCost]

    @property
    def annotated(self) -> int:
        return sum(node.origin in self.costs for node in self.nodes)

    @property
    def unassigned_ms(self) -> float:
        """Time that no node of the file stands for, such as turning an input channel-last."""
        shown = {node.origin for node in self.nodes}
        placed = sum(cost.ms for origin, cost in self.costs.items() if origin in shown)
        return max(0.0, self.profile.total_ms - placed)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument(
        "--model-explorer", metavar="FILE", help="node data (JSON) for Google's Model Explorer"
    )
    parser.add_argument("--netron", metavar="FILE", help="an annotated ONNX file for Netron")
    parser.add_argument(
        "--model", metavar="M", help="the model of a compiled program or a saved profile"
    )
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    refuse_overwrite(args, args.model)
    if not (args.model_explorer or args.netron):
        raise UsageError("nothing to write", hint="give --model-explorer FILE or --netron FILE")
    with working(args, "exporting"):
        subject = _subject(args)
        files = [*_write_node_data(args, subject), *_write_onnx(args, subject)]
    deliver(args, _text(subject, files), _as_json(subject, files))
    return 0


def _subject(args: argparse.Namespace) -> _Subject:
    from npuscope.report.export_costs import layer_costs
    from npuscope.report.export_nodes import is_tflite, onnx_nodes, onnx_proto, tflite_nodes

    profile, own = _profile(args)
    graph = own or _graph(args)
    path = Path(args.source if own else args.model)
    data = read_bytes(path, MODEL)
    nodes = tflite_nodes(graph) if is_tflite(data) else onnx_nodes(onnx_proto(data))
    subject = _Subject(path, data, graph, nodes, profile, layer_costs(profile, graph))
    if not subject.annotated:
        raise FileError(
            "no layer of this model is in the program",
            where=str(path),
            hint="give the model that it was compiled from",
        )
    return subject


def _profile(args: argparse.Namespace) -> tuple[Profile, Graph | None]:
    """Times of the source, and the network if the source is a model."""
    from npuscope import api
    from npuscope.profile.run import estimate
    from npuscope.profile.saved import is_saved_profile, read_profile

    if is_saved_profile(args.source):
        return read_profile(args.source), None
    made = api.build(args.source, api_options(args))
    return estimate(made.program, made.machine, made.graph), made.graph


def _graph(args: argparse.Namespace) -> Graph:
    if args.model is None:
        raise UsageError(
            "a compiled program and a saved profile are shown on their model",
            where="--model",
            hint="give the .tflite or .onnx file it was compiled from",
        )
    from npuscope import api

    return api.load_model(args.model, api_options(args)["shapes"])


def _write_node_data(args: argparse.Namespace, subject: _Subject) -> list[str]:
    if not args.model_explorer:
        return []
    from npuscope.report.export_model_explorer import data_paths, node_data
    from npuscope.report.figures import label, source_of
    from npuscope.whole_file import write_files

    made = node_data(subject.nodes, subject.costs, label(source_of(subject.profile)))
    paths = data_paths(Path(args.model_explorer))
    data = {
        path.name: dump(made[name]).encode("utf-8", "backslashreplace")
        for name, path in paths.items()
    }
    return [str(path) for path in write_files(Path(args.model_explorer).parent, data)]


def _write_onnx(args: argparse.Namespace, subject: _Subject) -> list[str]:
    if not args.netron:
        return []
    from npuscope.report.export_drawing import drawn_onnx
    from npuscope.report.export_netron import annotated_onnx
    from npuscope.report.export_nodes import is_tflite, onnx_proto
    from npuscope.whole_file import write_files

    if is_tflite(subject.data):
        made = drawn_onnx(subject.graph, subject.costs)
    else:
        proto = onnx_proto(subject.data)
        made = annotated_onnx(proto, subject.costs, subject.path.parent)
    path = Path(args.netron)
    return [str(file) for file in write_files(path.parent, {path.name: made})]


def _text(subject: _Subject, files: list[str]) -> str:
    layers = f"{subject.annotated} of {len(subject.nodes)} nodes"
    name = safe_terminal(subject.path.name)
    total, rest = subject.profile.total_ms, subject.unassigned_ms
    lines = [f"{layers} of {name} with times: {total - rest:.3f} of {total:.3f} ms"]
    return "\n".join([*lines, *(f"  {file}" for file in files)])


def _as_json(subject: _Subject, files: list[str]) -> dict[str, Any]:
    from npuscope.report.figures import source_of

    return {
        "schema": "npuscope/export/1",
        "model": subject.path.name,
        "files": files,
        "nodes": len(subject.nodes),
        "annotated": subject.annotated,
        "total_ms": round(subject.profile.total_ms, 6),
        "unassigned_ms": round(subject.unassigned_ms, 6),
        "provenance": source_of(subject.profile).value,
    }
