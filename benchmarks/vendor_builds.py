"""Every build below a folder of repositories: is it read, executed, emulated, validated?

    python benchmarks/vendor_builds.py builds --json builds.json --markdown builds.md

The folder has one folder per repository, owner+name. A build is what one compile wrote: sources
that differ in comments, names and white space alone are one, whichever repositories hold them, and
the copy with weights beside it is taken. A network.c is known by its content, whatever its name.
What somebody wrote or changed by hand is none: `--leave-out` names it.
A c_info.json is a build of its own unless a source has its buffers at its addresses, and a report
unless a source or c_info.json of its network lies in the same repository. Those of CPU targets
are left out. A folder may have a snapshot of an older commit in it, as `@commit`.

* read: the program is understood, estimated and explained.
* executed: one inference with the hardware's arithmetic, on random values.
* emulated: the same inference on the emulated board, with equal output bytes.
* validated: against the model that it was compiled from, found by its digest or its name below
  the folder or `--models`; the verdict is passed or differs (as rounding does).

Each cell that is not "yes" has its reason below the table. `own` are the epochs that the generate
report beside it counts, as total/SW/hybrid. Builds that need more than `--limit` seconds for a step
are told so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np

import npuscope
from npuscope.boards.device import NOTHING, Request
from npuscope.bounded_file import is_pointer, read_head
from npuscope.building import build, compiled_copy, md5, read_graph
from npuscope.errors import ModelError, NpuscopeError
from npuscope.machine.load import load_machine
from npuscope.profiling.measure import _emulated, random_inputs
from npuscope.profiling.same_network import refuse_other_network
from npuscope.profiling.validate import validate
from npuscope.program.generate_report.reader import read_generate_report
from npuscope.program.model import Program
from npuscope.program.sources import read_program
from npuscope.program.units import Ref
from npuscope.sim.memory import Memory
from npuscope.sim.run import execute

_HEAD_BYTES = 1 << 16
_MARKS = (b"LL_ATON_VERSION", b"global pool")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_BUFFER = re.compile(r'\.name = "([^"]+)",\s*\.addr_base = \{[^}]*\},\s*\.offset_start = (\d+)')
_NAMES = re.compile(r'"[^"]*"|\b[A-Za-z_]\w*')
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_DATE = re.compile(r"^Created date\s*:\s*(.+?)\s*$", re.MULTILINE)
_MODEL_NAME = re.compile(r"^Model name - (.+?)\s*$", re.MULTILINE)
_IMAGES = (".raw", ".bin", ".hex")
_ENDINGS = ("_generate_report", "_analyze_report", "_validate_report", "_report", "c_info", "_")
_KINDS = ("HW", "SW", "HYBRID")
Place = tuple[str, int]  # a buffer's name and where in its pool it starts
STEPS = ("read", "executed", "emulated", "validated")
NO_WEIGHTS, NO_MODEL = "no weights", "no model"
_HEAD = """# Public builds, one by one

Builds of the vendor's compilers that lie in public repositories, and what becomes of each here:
written by `benchmarks/vendor_builds.py`, which says how they are found and what the columns mean.
`@` is a commit that is not the newest. "No weights" and "no model" are not failures: there is
nothing to execute, or nothing to compare with. A network whose verdict is "wrong" or "not judged"
is not validated, whatever the cause is.
"""


def main() -> int:
    options = _arguments()
    models = _models(options.folder, *options.models)
    done = _rows(options.json)
    rows = []
    for paths in _builds(options.folder, options.leave_out):
        key = str(paths[0].relative_to(options.folder))
        if options.match not in key:
            continue
        row = done.get(key) or _within(options.limit, paths, options.folder, models)
        rows.append(row)
        print(_line(row), flush=True)
        if options.json and key not in done:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    print("\n".join(_totals(rows)))
    reasons = Counter(text for row in rows for text in row["why"].values())
    print("\n".join(f"{count:4d} x {text}" for text, count in reasons.most_common()))
    if options.markdown:
        options.markdown.write_text(_page(rows), encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of repositories; it is searched through")
    parser.add_argument("--models", type=Path, action="append", default=[], help="more models")
    parser.add_argument("--match", default="", help="only builds whose path holds this")
    parser.add_argument("--leave-out", action="append", default=[], help="not those with this")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one build (300)")
    parser.add_argument("--json", type=Path, help="a line for each build; what it holds is kept")
    parser.add_argument("--markdown", type=Path, help="file to write the table to")
    return parser.parse_args()


def _rows(file: Path | None) -> dict[str, dict[str, Any]]:
    if file is None or not file.is_file():
        return {}
    rows = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return {row["key"]: row for row in rows}


# --- What there is ---


def _builds(folder: Path, leave_out: Sequence[str] = ()) -> list[list[Path]]:
    """Files of each build: copies of one source, else of a c_info.json or a report alone."""
    sources: dict[str, list[Path]] = {}
    infos: dict[str, list[Path]] = {}
    reports: dict[str, list[Path]] = {}
    buffers: list[frozenset[Place]] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if any(text in str(path) for text in leave_out):
            continue
        if is_network(path):
            text = path.read_text(encoding="utf-8", errors="replace")
            copies = sources.setdefault(_digest(numbers(text)), [])
            copies.append(path)
            if len(copies) == 1:
                buffers.append(frozenset((n, int(o)) for n, o in _BUFFER.findall(text)))
        elif path.name.endswith("c_info.json"):
            network = _network_of(path)
            if network is not None:
                infos.setdefault(_digest(json.dumps(network, sort_keys=True)), []).append(path)
        elif path.name.endswith("report.txt"):
            text = read_head(path, _HEAD_BYTES).decode("utf-8", "replace")
            date, model = _DATE.search(text), _MODEL_NAME.search(text)
            if date and model and "--st-neural-art" in text:
                reports.setdefault(f"{date[1]} {model[1]}", []).append(path)
    alone = {
        key: paths for key, paths in infos.items() if not _has_source(_places(paths[0]), buffers)
    }
    described = {
        (path.relative_to(folder).parts[0], network_name(path))
        for paths in (*sources.values(), *infos.values())
        for path in paths
    }
    for paths in reports.values():
        if not any((p.relative_to(folder).parts[0], network_name(p)) in described for p in paths):
            # What was validated was generated before: one build.
            alone.setdefault(f"{paths[0].parent} {network_name(paths[0])}", []).extend(paths)
    return sorted([*sources.values(), *alone.values()])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def network_name(path: Path) -> str:
    """The network that a file of a build is named after: `network` of network_c_info.json."""
    stem = path.name.partition(".")[0]
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    return stem or path.parent.name.removeprefix("neural_art__")


def _network_of(path: Path) -> list[Any] | None:
    """What the files of both flavours of c_info.json have in common; None for a CPU target."""
    try:
        document = json.loads(path.read_bytes())
        tools = [tool["name"] for tool in document["environment"]["tools"]]
    except (ValueError, KeyError, TypeError):
        return None
    if not any(name.startswith("ATONN") for name in tools):
        return None
    return [document["graphs"], [(b["name"], b["offset_start"]) for b in document["buffers"]]]


def _places(path: Path) -> frozenset[Place]:
    buffers = json.loads(path.read_bytes())["buffers"]
    return frozenset((buffer["name"], buffer["offset_start"]) for buffer in buffers)


def _has_source(places: frozenset[Place], sources: list[frozenset[Place]]) -> bool:
    """Inputs and outputs may have other names in a source, so nearly all buffers are enough."""
    return any(len(places & source) >= 0.95 * len(source) > 0 for source in sources)


def code(text: str) -> str:
    """A source without what differs between copies of it."""
    return "".join(_COMMENT.sub("", text).split())


def numbers(text: str) -> str:
    """What stays of a source when its file, its functions and its network get other names."""
    plain = _NAMES.sub(lambda found: " " if found[0][0] == '"' else "x", _COMMENT.sub("", text))
    return " ".join(_NUMBER.findall(plain))


def is_network(path: Path) -> bool:
    if ".c" not in path.suffixes:
        return False
    head = read_head(path, _HEAD_BYTES)
    return all(mark in head for mark in _MARKS)


def _models(*folders: Path) -> dict[str, Path]:
    """Model files by digest and by name; a name that the compiler's front end made is its own."""
    models: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(f for f in folder.rglob("*") if f.suffix in (".tflite", ".onnx")):
            models.setdefault(md5(path), path)
            models.setdefault(_stem(path.name), path)
    return models


def _stem(name: str) -> str:
    """Without the version of the front end that wrote its own copy of the model."""
    return re.sub(r"(_OE_\d+_\d+_\d+)?\.(onnx|tflite)$", "", name).lower()


# --- What becomes of it ---


def _within(limit: float, paths: list[Path], root: Path, models: dict[str, Path]) -> dict[str, Any]:
    """In a process of its own, which tells after each step what it knows."""
    answers: multiprocessing.Queue[dict[str, Any]] = multiprocessing.Queue()
    child = multiprocessing.Process(target=_steps, args=(paths, root, models, answers), daemon=True)
    child.start()
    row: dict[str, Any] = {"key": str(paths[0].relative_to(root)), "states": {}, "why": {}}
    end = time.monotonic() + limit
    while not row.get("done"):
        try:
            row = answers.get(timeout=max(0.1, end - time.monotonic()))
        except Empty:
            step = next(step for step in STEPS if step not in row["states"])
            row["states"][step], row["why"][step] = "no", f"not in {limit:.0f} s"
            break
    child.terminate()
    child.join()
    return row


def _steps(paths: list[Path], root: Path, models: dict[str, Path], answers: Any) -> None:
    warnings.simplefilter("ignore")
    repositories = sorted({p.relative_to(root).parts[0].replace("+", "/", 1) for p in paths})
    row: dict[str, Any] = {
        "key": str(paths[0].relative_to(root)),
        "repositories": repositories,
        "copies": len(paths),
        "states": {},
        "why": {},
    }

    def tried(step: str, call: Callable[[], str | None]) -> bool:
        """The state of a step, with the sentence that a user would read where it fails."""
        try:
            reason = call()
        except NpuscopeError as error:
            reason = f"{error.where}: {error.message}" if error.where else error.message
        except Exception as error:  # what reaches a user as a bug; the table goes on
            reason = f"BUG {type(error).__name__}: {error}"
        row["states"][step] = "no" if reason else "yes"
        if reason:
            row["why"][step] = reason.replace(f"{root}/", "")
        answers.put({**row, "done": False})
        return not reason

    if not is_network(paths[0]):
        row["what"] = paths[0].name.rpartition("_")[2]
        tried("read", lambda: _inspected(paths[0]))
        answers.put({**row, "done": True})
        return
    program, path = _best(paths)
    row |= {"what": "network.c", "path": str(path.relative_to(root)), "own": _own(path)}
    if tried("read", lambda: _read(path, row)) and program is not None:
        row["generation"] = program.generation
        row["weights"] = not program.missing_weights()
        if not row["weights"]:
            row["states"] |= dict.fromkeys(STEPS[1:], NO_WEIGHTS)
            row["why"]["executed"] = _without_weights(paths, root)
        elif tried("executed", lambda: _executed(program)):
            tried("emulated", lambda: _equal(path))
            model = _model(path, program, models)
            if model is None or not fits(program, model):
                row["states"]["validated"] = NO_MODEL
            else:
                tried("validated", lambda: _validated(program, model))
    answers.put({**row, "done": True})


def _without_weights(paths: list[Path], root: Path) -> str:
    """A file `ABSENT` in a repository's folder names what the stored copy of it lacks."""
    beside = [file for path in paths for file in path.parent.glob("*")]
    if any(file.suffix in _IMAGES and is_pointer(file) for file in beside if file.is_file()):
        return "the weights are a Git LFS pointer"
    for path in paths:
        repository, *place = path.relative_to(root).parts
        folder = Path(*(part for part in place[:-1] if not part.startswith("@")))
        lacking = root / repository / "ABSENT"
        names = lacking.read_text(encoding="utf-8").splitlines() if lacking.is_file() else ()
        if any(Path(n).suffix in _IMAGES and Path(n).parent == folder for n in names):
            return "the stored copy of the repository lacks its largest files, the weights"
    return "no file of the repository has the size or the addresses of the weights"


def _best(paths: list[Path]) -> tuple[Program | None, Path]:
    """The first copy whose weights are there, else the first that is read."""
    found: tuple[Program | None, Path] = (None, paths[0])
    for path in paths:
        try:
            program = read_program(path)
        except NpuscopeError:
            continue
        if not program.missing_weights():
            return program, path
        if found[0] is None:
            found = (program, path)
    return found


def _inspected(path: Path) -> str:
    kind = npuscope.inspect(path).kind
    return "" if kind and "unknown" not in kind else f"is {kind or 'unknown'}"


def _read(path: Path, row: dict[str, Any]) -> str:
    explained = npuscope.explain(path)
    counts, memory = explained.profile.counts, explained.profile.memory
    row |= {
        "ms": explained.profile.total_ms,
        "epochs": [counts.get(kind, 0) for kind in _KINDS],
        "findings": len(explained.findings),
        "weights_bytes": memory.weights_bytes if memory else None,
    }
    return ""


def _own(path: Path) -> list[int | None] | None:
    """Epochs, software and hybrid ones, as the build's own report counts them."""
    for report in sorted(path.parent.glob("*report.txt")):
        try:
            found = read_generate_report(report)
        except NpuscopeError:
            continue
        if found.counts:
            return [found.counts.total, found.counts.software, found.counts.hybrid]
    return None


def _bytes(memory: Memory, name: str) -> np.ndarray:
    size = memory.buffer(name).size_bytes
    return memory.window(memory.address(Ref(name)), (size,), (1,), np.dtype("u1"))


def _outputs(program: Program, stored: list[bytes]) -> list[bytes]:
    """Bytes of the outputs for bytes of the inputs, as they lie in memory."""
    memory = Memory(program)
    for name, data in zip(program.inputs, stored, strict=True):
        _bytes(memory, name)[...] = np.frombuffer(data, np.uint8)
    results = execute(program, {name: memory.read(name) for name in program.inputs}).outputs
    fresh = Memory(program)
    for name, values in results.items():
        fresh.write(name, values)
    return [_bytes(fresh, name).tobytes() for name in program.outputs]


def _executed(program: Program) -> str:
    random, buffers = np.random.default_rng(0), program.buffer_map()
    values = [
        random.random(buffers[n].size_bytes // 4, np.float32).tobytes()
        if buffers[n].is_float
        else random.bytes(buffers[n].size_bytes)
        for n in program.inputs
    ]
    _outputs(program, values)
    return ""


def _equal(path: Path) -> str:
    made = build(path, {})
    board = _emulated(made.program, made.machine)
    try:
        (network,) = board.info().networks
        inputs = random_inputs(network)
        found = board.run(Request(network.name, inputs, per_layer=True, options=NOTHING)).outputs
    finally:
        board.close()  # type: ignore[attr-defined]
    expected = _outputs(made.program, [np.ascontiguousarray(v).tobytes() for v in inputs])
    same = [np.ascontiguousarray(v).tobytes() == e for v, e in zip(found, expected, strict=True)]
    return "" if all(same) else f"{same.count(False)} of {len(same)} outputs differ"


def _model(path: Path, program: Program, models: dict[str, Path]) -> Path | None:
    """By the digest that the build states, or by the name that the compiler was given."""
    stem = _stem(compiled_copy(program).name)
    near = (f for folder in path.parents[:3] for f in sorted(folder.glob("*")))
    beside = (f for f in near if f.suffix in (".onnx", ".tflite") and _stem(f.name) == stem)
    return models.get(program.model_md5) or next(beside, None) or models.get(stem)


def fits(program: Program, model: Path) -> bool:
    """Another model may bear the same name. One that cannot be read is told of by the next step."""
    try:
        graph = read_graph(model, {})
    except NpuscopeError:
        return True
    try:
        refuse_other_network(program, graph)
    except ModelError:
        return False
    return True


def _validated(program: Program, model: Path) -> str:
    machine = load_machine(generation=program.generation)
    found = validate(program, read_graph(model, {}), machine)
    return "" if found.passed else found.sentence


# --- What is shown ---


def _line(row: dict[str, Any]) -> str:
    cells = " ".join(f"{row['states'].get(step, '-'):>10}" for step in STEPS)
    name = row.get("path", row["key"])
    reasons = [f"{step}: {text}" for step, text in row["why"].items()]
    return "\n      ".join([f"{row.get('generation', '-'):>5} {cells}  {name}", *reasons])


def _page(rows: list[dict[str, Any]]) -> str:
    """The table as a page, each reason once below it."""
    head = ("repository", "build", "generation", "found", "ms", *STEPS)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    notes: dict[str, int] = {}
    for row in rows:
        states = []
        for step in STEPS:
            state = row["states"].get(step, "-")
            if step in row["why"]:
                text = row["why"][step].replace("|", "/").replace("<", "&lt;")
                state += f" [{notes.setdefault(text, len(notes) + 1)}]"
            states.append(state)
        weights = {True: "network.c, weights", False: "network.c"}
        found = weights.get(row.get("weights"), row.get("what", ""))  # type: ignore[arg-type]
        time_ms = f"{row['ms']:.2f}" if row.get("ms") is not None else "-"
        repository, _, path = row.get("path", row["key"]).partition("/")
        place = (repository.replace("+", "/", 1), f"`{path}`")
        cells = (*place, row.get("generation", "-"), found, time_ms, *states)
        lines.append(f"| {' | '.join(cells)} |")
    told = "\n".join(f"* {line}" for line in _totals(rows))
    reasons = "\n".join(f"{number}. {text}" for text, number in notes.items())
    return "\n".join([_HEAD, told, "", *lines, "", "## Reasons", "", reasons, ""])


def _totals(rows: list[dict[str, Any]]) -> Iterator[str]:
    sources = [row for row in rows if row.get("what") == "network.c"]
    weighted = [row for row in sources if row.get("weights")]
    repositories = {name for row in rows for name in row.get("repositories", ())}
    yield f"{len(rows)} builds of {len(repositories)} repositories, {len(sources)} with network.c"
    read = sum(row["states"].get("read") == "yes" for row in rows)
    yield f"read: {read} of {len(rows)}; with weights: {len(weighted)}"
    for step in STEPS[1:]:
        tried = [r for r in weighted if r["states"].get(step) not in (NO_MODEL, NO_WEIGHTS)]
        done = sum(row["states"].get(step) == "yes" for row in tried)
        yield f"{step}: {done} of {len(tried)} with weights{' and a model' * (step == STEPS[3])}"


if __name__ == "__main__":
    raise SystemExit(main())
