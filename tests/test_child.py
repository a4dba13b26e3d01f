"""Pythons of our own: none of them runs code that lies where the user stands."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import npuscope
from advice.sweep.samples import small_sweep
from models import dense_net, save, to_onnx, to_tflite
from npuscope import child

SOURCE = Path(npuscope.__file__).parent
# What starts a process, or could: one place for each, with what it starts.
DOORS = {
    "child.py": {"subprocess.Popen", "subprocess.run", "sys.executable"},  # Python
    "loadable/toolchain.py": {"subprocess.run"},  # a cross compiler
    "loadable/deploy.py": {"subprocess.run"},  # the programmer of a board, when asked to
    "families/ethos_u/vela.py": {"subprocess.run", "sys.executable"},  # the compiler of Arm
    "report/doctor.py": {"sys.executable"},  # nothing: it prints the path
    "advice/sweep/cluster.py": {"LocalCluster"},  # Pythons, within child.safe_spawning
}
STARTERS = re.compile(
    r"subprocess\.(run|call|check_\w+|get\w*output|Popen)|sys\.(_base_)?executable|"
    r"os\.(exec\w+|(posix_)?spawn\w+|fork\w*|system|popen|startfile)|"
    r"(asyncio\.)?(create_)?subprocess_\w+|multiprocessing\b.*|pty\.\w+|runpy\.\w+|"
    r"(\w+\.)*(ProcessPoolExecutor|LocalCluster|SpecCluster|Nanny)"
)
WORDS = re.compile(r"process|executable|\bos\b|\bpty\b|runpy|Cluster|Nanny")  # to save time
OTHERS = ("numpy", "onnx", "orjson", "rich", "serial", "flatbuffers", "tflite", "google", "dask")
EXTRAS = ("distributed", "tornado", "onnxruntime", "ai_edge_litert", "unicorn", "elftools")
OURS = ("npuscope", "ziglang", "sitecustomize", "usercustomize")
# As installers write it: the folder of the script is on the path, the current one is not.
SCRIPT = """
import sys
from npuscope.cli.main import console
if __name__ == "__main__":
    sys.exit(console())
"""
TRAP = """
import os
with open(os.environ["CAUGHT"], "a") as file:
    file.write(__name__ + "\\n")
raise ImportError(__name__)
"""

Run = Callable[..., str]


def dotted(node: ast.Attribute | ast.Name) -> str:
    """`module.name` or `name`; further parts say nothing more."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else node.attr


def names_in(path: Path) -> set[str]:
    """Dotted names that a file uses or imports; `subprocess.Popen[...]` is a type, not a use."""
    text = path.read_text(encoding="utf-8")
    if not WORDS.search(text):
        return set()
    tree = ast.parse(text)
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in types:
            names.add(dotted(node))
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.removeprefix("distributed.") for name in names if STARTERS.fullmatch(name)}


def test_processes_are_started_in_one_place() -> None:
    found = {path.relative_to(SOURCE).as_posix(): names_in(path) for path in SOURCE.rglob("*.py")}
    assert {file: names for file, names in found.items() if names} == DOORS


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A folder with a module of every name that a child might import."""
    folder = tmp_path / "trapped"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, *OTHERS, *EXTRAS, *OURS}:
        (folder / f"{name}.py").write_text(TRAP)
    return folder


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    path = tmp_path / "bin" / "npuscope"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return [sys.executable, str(path)]


@pytest.fixture
def variables(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Those of a user who never heard of safe paths; nothing may be caught."""
    caught = tmp_path / "caught"
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    yield kept | {"PYTHONPATH": str(SOURCE.parent), "CAUGHT": str(caught)}
    assert not caught.exists(), sorted(set(caught.read_text().split()))


@pytest.fixture
def run(trapped: Path, script: list[str], variables: dict[str, str]) -> Run:
    """npuscope in the trapped folder, as a user starts it."""

    def verb(*words: object) -> str:
        done = subprocess.run(
            [*script, *map(str, words)],
            cwd=trapped,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return verb


def need(*modules: str) -> None:
    for module in modules:
        pytest.importorskip(module, reason=f"{module} is not installed")


def test_the_trap_works(trapped: Path, tmp_path: Path) -> None:
    caught = tmp_path / "caught-here"
    subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules.pop('select', None); import select"],
        cwd=trapped,
        env={**os.environ, "CAUGHT": str(caught), "PYTHONSAFEPATH": ""},
        stderr=subprocess.DEVNULL,
    )
    assert "select" in caught.read_text().split()


def test_validate_and_fix(run: Run, tmp_path: Path) -> None:
    need("onnxruntime", "ai_edge_litert")
    onnx = save(tmp_path, "net.onnx", to_onnx(dense_net()))
    tflite = save(tmp_path, "net.tflite", to_tflite(dense_net()))
    assert "elements differ from onnxruntime" in run("validate", onnx)
    assert "elements differ from litert" in run("validate", tflite)
    text = run("fix", onnx, "--integer-io", "-o", tmp_path / "fixed.onnx")
    assert "opens and runs in onnxruntime" in text


def test_sweep(run: Run, tmp_path: Path) -> None:
    assert run("sweep", small_sweep(tmp_path), "--jobs", "1").startswith("4 runs: 4 done")


def test_sweep_in_a_cluster(run: Run, tmp_path: Path) -> None:
    need("distributed", "cryptography")
    assert run("sweep", small_sweep(tmp_path), "--local-cluster", "1").startswith("4 runs: 4 done")


def test_profile_on_the_emulated_board(run: Run, tmp_path: Path) -> None:
    need("ziglang", "unicorn", "elftools")
    model = save(tmp_path, "net.tflite", to_tflite(dense_net()))
    assert run("profile", model, "--connect", "emulated", "--batch", "1")


def test_package_and_run(run: Run, tmp_path: Path) -> None:
    need("ziglang", "unicorn", "elftools")
    model = save(tmp_path, "net.tflite", to_tflite(dense_net()))
    run("compile", model, "-o", tmp_path / "build", "--no-epoch-controller", "--relocatable")
    run("package", tmp_path / "build", "--cpu", "cortex-m33")
    assert "on the emulated board" in run("run", tmp_path / "build")


def test_serve(trapped: Path, script: list[str], variables: dict[str, str], tmp_path: Path) -> None:
    need("ziglang", "unicorn", "elftools")
    model = save(tmp_path, "net.tflite", to_tflite(dense_net()))
    words = ("board", "serve", str(model), "--emulated", "--tcp", "0", "--json")
    with subprocess.Popen(
        [*script, *words], cwd=trapped, env=variables, stdout=subprocess.PIPE
    ) as board:
        assert board.stdout is not None
        assert json.loads(board.stdout.readline())["networks"] == ["net"]
        board.send_signal(signal.SIGINT)
        assert board.wait(60) in (0, 130)  # it may not have begun to wait for clients


@pytest.mark.parametrize("paths", ["", "more", os.pathsep + "more", f"more{os.pathsep}"])
def test_empty_paths_are_left_out(paths: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", paths)
    found = child.environment()["PYTHONPATH"].split(os.pathsep)
    assert found == [str(SOURCE.parent), *(["more"] if paths else [])]


def test_a_child_is_like_its_parent() -> None:
    code = "from npuscope import child; print(child.command())"
    command = [sys.executable, "-OO", "-c", code]
    done = subprocess.run(command, env=child.environment(), capture_output=True, check=True)
    assert done.stdout.decode().strip() == str([sys.executable, "-P", "-OO"])


def test_safe_spawning_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", "more")
    before = dict(os.environ)
    with child.safe_spawning():
        assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ["PYTHONPATH"] == child.environment()["PYTHONPATH"]
    assert dict(os.environ) == before
