"""Do model files of others survive our writer?

    python benchmarks/file_writer.py FOLDER ... [--seconds 60] [--no-runtime] [--json ROWS.json]

For every .tflite and .onnx file below the folders:

* copy: written with nothing changed, it is the same bytes;
* writer: parsed, written without the original bytes, it is equal in every field, which the
  runtimes' own schema classes judge (tests/file_fields.py);
* edit: an op that does nothing is put in front of another (where all ops are bound to other parts
  of the file, a tensor is renamed); undone in that file, what is written is equal to the original
  in every field;
* runtime: LiteRT or onnxruntime opens the written and the edited file where it opens the original,
  and gives equal outputs on the same seeded inputs. Runtimes run in a process of their own, which
  is started again after a crash or a time-out.

Prints one line per file that is not all right, then counts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import select
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

_EQUAL = "equal"
_MOST_BYTES = 400 << 20
_DRAWS = 8


def main() -> int:
    if sys.argv[1:] == ["--runtime"]:
        return serve_runtime()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="for one file in a runtime")
    parser.add_argument("--no-runtime", action="store_true", help="fields and bytes only")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    with Runtime(args.seconds) as runtime, tempfile.TemporaryDirectory() as folder:
        for path in models(args.folders):
            row = judged(path, None if args.no_runtime else runtime, Path(folder))
            rows.append(row)
            if not fine(row):
                print(json.dumps(row), flush=True)
    show(rows)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 0


def models(folders: list[Path]) -> list[Path]:
    """Each content once."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            is_model = path.suffix in (".tflite", ".lite", ".onnx") and path.is_file()
            if is_model and path.stat().st_size <= _MOST_BYTES:
                found.setdefault(hashlib.sha1(path.read_bytes()).hexdigest(), path)
    return list(found.values())


# --- one file ---


def judged(path: Path, runtime: Runtime | None, folder: Path) -> dict[str, Any]:
    from file_fields import differences
    from npuscope.errors import NpuscopeError

    kind = "onnx" if path.suffix == ".onnx" else "tflite"
    row: dict[str, Any] = {"file": path.name, "format": kind}
    data = path.read_bytes()
    if kind == "tflite" and data[4:8] != b"TFL3":
        return row | {"refused": "not a model"}
    try:
        document = parsed(path, data)
        copy, written = document.to_bytes(), document.written()
    except NpuscopeError as error:
        return row | {"refused": error.message}
    except Exception as error:
        return row | {"refused": f"not a model: {type(error).__name__}: {error}"[:200]}
    if copy != data:
        row["inlined"] = row["format"] == "onnx"
        data = copy if row["inlined"] else data
    row["copy"] = _EQUAL if copy == data else "other bytes"
    row["writer"] = told(differences(data, written))
    files = {"original": data, "written": written}
    try:
        edited = neutral_edit(parsed(path, data))
        if edited is None:
            row["edit"] = "no place"
        else:
            files["edited"] = edited
            again = undone(parsed(path, edited))
            row["edit"] = told(differences(data, again))
    except NpuscopeError as error:
        row["edit"] = f"refused: {error.message}"
    except Exception as error:
        row["edit"] = f"crashed: {type(error).__name__}: {error}"
    if runtime is not None:
        row["runtime"] = compared(runtime.run(folder, path.suffix, files))
    return row


def parsed(path: Path, data: bytes) -> Any:
    from npuscope.files.onnx.file_graph import OnnxFileGraph
    from npuscope.files.tflite.file_graph import TfliteFileGraph

    if path.suffix == ".onnx":
        return OnnxFileGraph.parse(data, path.parent)
    return TfliteFileGraph.parse(data)


def told(found: list[str]) -> str:
    return "; ".join(found) if found else _EQUAL


_MARK = "npuscope_neutral"
_HALF = 10  # onnx.TensorProto.FLOAT16


def neutral_edit(document: Any) -> bytes | None:
    return (_identity if document.format == "onnx" else _reshape)(document)


def _identity(document: Any) -> bytes | None:
    constants = {entry.name for entry in document.graph.initializer}
    types = document.inferred().types
    # Sequences and maps cannot be copied; what ops of other domains make is tried.
    inner = [n for node in document.nodes for n in node.output if node.domain or types.get(n)]
    places = [*inner, *filter(types.get, document.network_inputs)]
    if _HALF in types.values():  # rounding of a runtime depends on what stands between two ops
        places.reverse()
    for tensor in places:
        readers = [reader for reader in document.readers(tensor) if tensor in reader.input]
        if not tensor or not readers or tensor in document.network_outputs or tensor in constants:
            continue
        if any(item.HasField("g") for item in readers[0].attribute):
            continue
        name = document.fresh(_MARK)
        document.add_op("Identity", [tensor], name, name=_MARK)
        document.rewire(tensor, name, readers[:1])
        return bytes(document.to_bytes())
    return None


def _reshape(document: Any) -> bytes | None:
    """Kernels of RESHAPE copy any type; one open size stays open."""
    from npuscope.files.tflite.records import Record

    inner = [tensor for op in document.nodes for tensor in op.outputs]
    for tensor in (*inner, *document.network_inputs):
        readers = [op for op in document.readers(tensor) if not op.is_bound]
        sizes = _sizes(tensor)
        if not readers or tensor.type not in _RESHAPED or not sizes.size or sizes.min() == 0:
            continue
        if (sizes < 0).sum() > 1:
            continue
        held = document.add_tensor(f"{_MARK}_shape", "INT32", sizes.shape, None, sizes)
        result = document.add_tensor(_MARK, tensor.type, tensor.shape, tensor.quant)
        options = Record("ReshapeOptions", {"NewShape": sizes})
        document.add_operator("RESHAPE", [tensor, held], [result], options)
        document.rewire(tensor, result, readers[:1])
        return bytes(document.to_bytes())
    return _renamed(document)


_RESHAPED = ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64")


def _sizes(tensor: Any) -> np.ndarray:
    signature = tensor.source.get("ShapeSignature")
    is_open = signature is not None and len(signature)
    return np.array(signature if is_open else tensor.shape, np.int32)


def _renamed(document: Any) -> bytes | None:
    """All operators are bound to others: a tensor gets another name."""
    for tensor in document.tensors[:1]:
        tensor.name = f"{_MARK}/{tensor.name}"
        return bytes(document.to_bytes())
    return None


def undone(document: Any) -> bytes:
    """The op that was put in is taken out."""
    if document.format == "onnx":
        node = next(node for node in document.nodes if node.name.startswith(_MARK))
        document.rewire(node.output[0], node.input[0])
        document.remove(node)
    elif document.tensors[0].name.startswith(f"{_MARK}/"):
        document.tensors[0].name = document.tensors[0].name.removeprefix(f"{_MARK}/")
    else:
        result = next(tensor for tensor in document.tensors if tensor.name == _MARK)
        op = document.producer(result)
        document.rewire(result, op.inputs[0])
        document.remove(op)
    return bytes(document.to_bytes())


def compared(outcomes: dict[str, dict[str, Any]]) -> str:
    first = outcomes["original"]
    if first["state"] not in ("ran", "opened"):
        return f"original {first['state']}"
    for name, outcome in outcomes.items():
        if outcome["state"] != first["state"]:
            return f"{name} {outcome['state']}: {outcome.get('reason', '')}"
        if outcome.get("outputs") != first.get("outputs") and first.get("steady"):
            return f"{name}: other outputs"
    return f"{first['state']}, {_EQUAL}" if first.get("steady", True) else "ran, random outputs"


# --- the process of the runtimes ---


class Runtime:
    """Asks a child process, which is replaced when it ends or takes too long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *reason: object) -> None:
        self._end()

    def _end(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
        self.child = None

    def run(self, folder: Path, suffix: str, files: dict[str, bytes]) -> dict[str, dict[str, Any]]:
        outcomes: dict[str, dict[str, Any]] = {}
        for name, data in files.items():
            path = folder / f"{name}{suffix}"
            path.write_bytes(data)
            outcomes[name] = self._ask(path)
            path.unlink()
            if outcomes["original"]["state"] not in ("ran", "opened"):
                break
        if len({outcome.get("outputs") for outcome in outcomes.values()}) > 1:
            outcomes["original"]["steady"] &= self._is_steady(folder, suffix, files["original"])
        return outcomes

    def _is_steady(self, folder: Path, suffix: str, data: bytes) -> bool:
        """Each session draws random numbers anew, and two draws may be equal by chance."""
        path = folder / f"again{suffix}"
        path.write_bytes(data)
        outputs = {self._ask(path).get("outputs") for _ in range(_DRAWS)}
        path.unlink()
        return len(outputs) == 1

    def _ask(self, path: Path) -> dict[str, Any]:
        if self.child is None:
            command = [sys.executable, str(Path(__file__).resolve()), "--runtime"]
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.child.stdin is not None and self.child.stdout is not None
        try:
            self.child.stdin.write(f"{path}\n")
            self.child.stdin.flush()
            ready, _, _ = select.select([self.child.stdout], [], [], self.seconds)
            line = self.child.stdout.readline() if ready else ""
        except BrokenPipeError:
            ready, line = [self.child.stdout], ""
        if line:
            outcome: dict[str, Any] = json.loads(line)
            return outcome
        self._end()
        return {"state": "crashed the runtime" if ready else "took too long"}


def serve_runtime() -> int:
    """One line per file: a path in, an outcome out. Runtimes must not write to our stdout."""
    import os

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        outcome = outcome_of(Path(line.rstrip("\n")))
        print(json.dumps(outcome), file=out, flush=True)
    return 0


def outcome_of(path: Path) -> dict[str, Any]:
    try:
        run = _onnxruntime(path) if path.suffix == ".onnx" else _litert(path)
    except Exception as error:
        return {"state": "not opened", "reason": str(error)[:200]}
    try:
        first, second = run(), run()
    except Exception as error:
        return {"state": "opened", "reason": str(error)[:200]}
    return {"state": "ran", "outputs": first, "steady": first == second}


def _litert(path: Path) -> Any:
    from npuscope.profiling.runtimes import LitertKernels, litert_interpreter

    litert_interpreter(str(path), LitertKernels.DEFAULT)

    def run() -> str:
        interpreter = litert_interpreter(str(path), LitertKernels.DEFAULT)
        generator = np.random.default_rng(3)
        for detail in interpreter.get_input_details():
            values = _values(generator, tuple(detail["shape"]), np.dtype(detail["dtype"]))
            interpreter.set_tensor(detail["index"], values)
        digest = hashlib.sha1()
        for _ in range(2):  # what the network keeps for the next inference shows in the second
            interpreter.invoke()
            for detail in interpreter.get_output_details():
                _add(digest, interpreter.get_tensor(detail["index"]))
        return digest.hexdigest()

    return run


def _onnxruntime(path: Path) -> Any:
    from npuscope.profiling.runtimes import onnxruntime_session

    session = onnxruntime_session(str(path))

    def run() -> str:
        generator = np.random.default_rng(3)
        feeds = {}
        for node in session.get_inputs():
            kind = node.type.removeprefix("tensor(").removesuffix(")")
            name = {"float": "float32", "double": "float64"}.get(kind, kind)
            shape = tuple(n if isinstance(n, int) and n >= 0 else 1 for n in node.shape)
            feeds[node.name] = _values(generator, shape, np.dtype(name))
        digest = hashlib.sha1()
        for value in session.run(None, feeds):
            _add(digest, np.asarray(value))
        return digest.hexdigest()

    return run


def _values(generator: np.random.Generator, shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
    if kind.kind == "f":
        return np.asarray(generator.standard_normal(shape), kind)
    if kind.kind == "b":
        return np.asarray(generator.random(shape) < 0.5)
    return np.asarray(generator.integers(0, 100 if kind.itemsize == 1 else 2, shape), kind)


def _add(digest: Any, values: np.ndarray) -> None:
    digest.update(repr((values.shape, values.dtype)).encode())
    digest.update(values.tobytes() if values.dtype != object else repr(values.tolist()).encode())


# --- the table ---


def fine(row: dict[str, Any]) -> bool:
    fields = (row.get("copy"), row.get("writer"), row.get("edit"))
    runs = row.get("runtime", _EQUAL)
    good = runs.endswith(_EQUAL) or runs.startswith(("original", "ran, random"))
    return good and all(field in (_EQUAL, "no place") for field in fields)


def show(rows: list[dict[str, Any]]) -> None:
    for kind in ("tflite", "onnx"):
        own = [row for row in rows if row["format"] == kind]
        print(f"\n{kind}: {len(own)} files")
        refused = Counter(row["refused"].split(":")[0] for row in own if "refused" in row)
        for reason, count in refused.most_common():
            print(f"  {count:5} refused: {reason}")
        for column in ("copy", "writer", "edit", "runtime"):
            values = [row[column] for row in own if column in row]
            counts = Counter(value if len(value) < 60 else value[:57] + "..." for value in values)
            for value, count in counts.most_common():
                print(f"  {count:5} {column:8} {value}")
        inlined = sum(bool(row.get("inlined")) for row in own)
        if inlined:
            print(f"  {inlined:5} with external data, which came inside")


if __name__ == "__main__":
    sys.exit(main())
