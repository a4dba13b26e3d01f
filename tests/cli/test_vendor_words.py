"""Lines of the vendors' documents, pasted behind `npuscope`."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from edits.channel_nets import two_cell_denoiser
from models import mobilenet_like, save, to_onnx, to_tflite
from npuscope.cli.main import main
from npuscope.cli.vendor_words import TOOLS, translated

FILE = Path(__file__).parent / "document_commands.txt"
LINES = [
    line for line in FILE.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")
]
NEEDS_BOARD = ("npu_driver.py -i", "st_load_and_run.py -i")


@pytest.mark.parametrize(
    ("line", "here"),
    [
        (
            "stedgeai generate -m a.onnx --target stm32n6 --workspace ws -o out",
            "compile -m a.onnx --target stm32n6 -o out",
        ),
        ("generate -m a.onnx", "compile -m a.onnx"),
        (
            "/home/doc/X-CUBE-AI/10.1.0/Utilities/linux/stedgeai generate -m a.onnx "
            '--st-neural-art "p@/home/doc/X-CUBE-AI/10.0.0/scripts/user_neuralart.json"',
            "compile -m a.onnx --st-neural-art "
            "p@/home/doc/X-CUBE-AI/10.0.0/scripts/user_neuralart.json --generation 2.1",
        ),
        (
            "/opt/ST/STEdgeAI/3.0/Utilities/linux/stedgeai analyze -m a.onnx --generation 2.2",
            "estimate a.onnx --generation 2.2",
        ),
        (
            "/opt/ST/STEdgeAI/3.0/Utilities/linux/stedgeai analyze -m a.onnx",
            "estimate a.onnx --generation 3.0",
        ),
        ("stedgeai analyze -m a.onnx --target stm32n6", "estimate a.onnx"),
        ("stedgeai validate --model=a.onnx --mode target", "validate a.onnx"),
        (
            r'C:\ST\atonn -i "a.onnx" -g "net.c" --out-dir-prefix "ws/" -O3',
            "compile -m a.onnx --name net -o ws/ -O3",
        ),
        ("$ python scripts/npu_driver.py -i x/network.c", "package -i x/network.c"),
        ("python3 st_load_and_run.py --mode xip", "run --mode xip"),
        ("n6_loader.py ..", "deploy st_ai_output --board stm32n6570-dk"),
        ("sudo /opt/qti-aic/exec/qaic-exec -m=a.onnx -aic-hw", "manycore compile -m=a.onnx"),
        ("qaic-runner -t binaries", "manycore run -t binaries"),
        ("qaic-opstats --qpc a -i b", "opstats --qpc a -i b"),
        ("npu_profiler.py --cfile d -d serial", "profile --cfile d -d serial"),
    ],
)
def test_the_line_here(line: str, here: str) -> None:
    # The backslashes of a Windows path are not escapes.
    words = translated(shlex.split(line.replace("\\", "\\\\")))
    assert words is not None and " ".join(words.words) == here


def test_our_own_verbs_are_no_vendor_words() -> None:
    assert translated(["compile", "a.onnx"]) is None
    assert translated([]) is translated(["python"]) is translated(["stedgeai"]) is None
    assert not {tool.split()[0] for tool in TOOLS} & {"compile", "validate", "run"}


def test_what_flashes_a_board_is_told_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["python", "n6_loader.py"]) == 0
    assert capsys.readouterr().out == (
        "npuscope deploy st_ai_output --board stm32n6570-dk\nit flashes a board: --run does it\n"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("documents")
    save(place, "model.tflite", to_tflite(mobilenet_like()))
    save(place, "model.onnx", to_onnx(mobilenet_like()))
    save(place, "denoiser.onnx", two_cell_denoiser())
    units = {"CONVACC": 4, "POOL": 2, "ACTIV": 2, "ARITH": 4, "STRENG": 10, "DECUN": 2, "RECBUF": 1}
    rows = [{"num": number, "type": kind} for kind, number in units.items()]
    machine = {"machine": {"name": "n6", "accelerators": rows}}
    (place / "stm32n6.mdesc").write_text(json.dumps(machine), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name, words in (
            ("stm32n6__noextmem", ["--art-profile", "n6-noextmem"]),
            ("reloc", ["--relocatable"]),
        ):
            assert main(["compile", "model.tflite", "-o", "pools", "-q", *words]) == 0
            shutil.copy("pools/stm32n6.mpool", f"{name}.mpool")
            shutil.rmtree("pools")
    profiles = {
        "n6-noextmem": {"memory_pool": "stm32n6__noextmem.mpool", "options": "--optimization 3"},
        "profiled": {"options": "--csv-file network.csv --output-info-file c_info.json"},
        "reloc": {"memory_pool": "reloc.mpool", "options": "--all-buffers-info"},
    }
    for name in ("neural_art.json", "user_neuralart.json"):
        (place / name).write_text(json.dumps({"Profiles": profiles}), encoding="utf-8")
    (place / "stats").mkdir()
    return place


def test_every_line_of_the_documents_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    emulated = _has_board()
    answers: dict[str, str] = {}
    for line in LINES:
        if any(part in line for part in NEEDS_BOARD) and not emulated:
            continue
        assert main(shlex.split(line)) == 0, (line, capsys.readouterr().err)
        answers[line] = capsys.readouterr().out
    first, compiler = answers[LINES[0]], answers[LINES[1]]
    for text in (first, compiler):
        assert (
            "epochs (" in text and "options            : allocate-inputs, allocate-outputs" in text
        )
        assert "activations (rw)" in text and "(1 segment) *" in text
    assert (folder / "st_ai_ws" / "neural_art__network" / "c_info.json").exists()
    assert "total duration" in answers[LINES[4]]
    if emulated:
        assert 'creating "build/network_rel.bin"' in answers[LINES[6]]
        assert "inf/s" in answers[LINES[8]]
    traces = list((folder / "stats-out").glob("*.qaic-opstats.trace.json"))
    assert len(traces) == 8  # five samples and three, under other numbers


def _has_board() -> bool:
    try:
        import elftools  # noqa: F401
        import unicorn  # noqa: F401
        import ziglang  # noqa: F401
    except ImportError:
        return False
    return True
