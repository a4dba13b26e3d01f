"""The HTML report as a file: safe to open, complete, every figure with its source."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from pathlib import Path

import pytest

from many_core.samples import layout, program, stats
from models import conv_net, mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from npuscope.demo_network import demo_graph
from npuscope.families.many_core.buffer import write_buffer
from npuscope.families.many_core.container import write_program
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.report.opstats_page import opstats_page
from npuscope.profiling.model import UNKNOWN_FIT, UNKNOWN_MEMORY
from npuscope.report.html.data import epoch_edges, epoch_modules, explained_data, profile_page
from npuscope.report.html.memory_map import memory_map, pool_kind, roofs
from npuscope.report.html.page import as_json
from npuscope.structs import replace
from report.html_samples import ATTACKS, deep_graph, explained, hostile_graph, page_of
from sample_profile import sample_profile

# As published: npm package uplot 1.6.32.
UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
BLOCK = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def demo() -> tuple:
    return explained(demo_graph())


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    return save(tmp_path, "tiny.tflite", to_tflite(mobilenet_like()))


def data_of(page: str) -> dict:
    found = BLOCK.findall(page)
    assert len(found) == 1
    return json.loads(found[0])


@pytest.mark.parametrize("name", UPLOT)
def test_the_plot_library_is_the_published_one(name: str) -> None:
    data = resources.files("npuscope.report.html").joinpath("uplot", name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == UPLOT[name]


def test_only_what_the_file_carries_may_run(demo: tuple) -> None:
    page = page_of(*demo)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy and "http" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert (len(scripts), len(styles)) == (2, 1)
    for text in (*scripts, *styles):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_our_scripts_write_no_markup() -> None:
    folder = resources.files("npuscope.report.html")
    scripts = [file for file in folder.iterdir() if file.name.endswith(".js")]
    assert len(scripts) > 5
    for file in scripts:
        text = file.read_text(encoding="utf-8")
        ways = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|setAttribute\(.style"
        assert not re.findall(ways, text), file.name


def test_data_cannot_end_its_block() -> None:
    text = as_json({name: [name, {"deep": name}] for name in (*ATTACKS, "lone \ud800")})
    assert not set(text) & set("<>&\u2028\u2029\u202e\x00\x1b\ud800")
    assert json.loads(text)[ATTACKS[0]][0] == ATTACKS[0]


def test_numbers_that_json_does_not_have_are_null() -> None:
    found = json.loads(as_json({"a": float("nan"), "b": float("inf"), "c": 0.1 + 0.2, "d": 4.0}))
    assert found == {"a": None, "b": None, "c": 0.3, "d": 4}


def test_hostile_names_stay_in_the_data() -> None:
    page = page_of(*explained(hostile_graph()))
    assert page.count("<script") == 3 and page.count("</script>") == 3
    assert "<img" not in page and "onload=" not in BLOCK.sub("", page)
    origins = [name for epoch in data_of(page)["epochs"] for name in epoch["origin"]]
    assert any(ATTACKS[0] in name for name in origins)


def test_long_names_are_cut() -> None:
    name = json.loads(as_json({"name": f"begin{'n' * 100_000}end"}))["name"]
    assert len(name) == 239
    assert name.startswith("begin") and name.endswith("end")


def test_every_figure_says_where_it_comes_from(demo: tuple) -> None:
    made, found = demo
    data = explained_data(found, made)
    assert data["sure"].startswith("simulated, assuming flash octo-dtr-200, known error: ")
    figures = {row["name"]: row for row in data["figures"]}
    assert all(row["source"] for row in figures.values())
    for name in ("Inference", "Rate", "NPU utilisation"):
        assert figures[name]["source"] == data["source"]
    assert figures["Weights"]["source"] == "from the placement of this program"
    assert all(epoch["source"] == "simulated" for epoch in data["epochs"])
    assert sum(sum(epoch["phases"]) for epoch in data["epochs"]) == pytest.approx(data["total_ms"])


def test_a_device_without_its_program_leaves_views_empty() -> None:
    bare = replace(sample_profile(), fit=UNKNOWN_FIT, memory=UNKNOWN_MEMORY)
    data = data_of(profile_page(bare))
    assert (data["memory"], data["roofs"], data["edges"]) == (None, None, None)
    assert data["explained"] is False
    assert {row["name"] for row in data["figures"]} == {
        "Inference",
        "Rate",
        "NPU utilisation",
        "Epochs",
    }


def test_epochs_are_joined_by_what_they_read(demo: tuple) -> None:
    made, found = demo
    edges = epoch_edges(found.profile, made.program)
    assert all(producer < consumer for producer, consumer in edges)
    fed = {consumer for _, consumer in edges}
    assert fed == set(range(1, len(found.profile.epochs)))
    # The addition of a residual block reads what an earlier block made, too.
    (add,) = (i for i, e in enumerate(found.profile.epochs) if "Add:block2/add" in e.origin)
    assert sum(consumer == add for _, consumer in edges) == 2


def test_the_memory_map_has_the_peaks_of_the_report(demo: tuple) -> None:
    made, found = demo
    drawn = memory_map(found.profile, made)
    expected = {pool.name: pool for pool in found.profile.memory.pools}
    assert drawn["pools"]
    for pool in drawn["pools"]:
        alive = [0] * len(found.profile.epochs)
        for buffer, low, high in pool["pieces"]:
            _, first, last, _, weights, _ = drawn["buffers"][buffer]
            for epoch in range(first, last + 1) if not weights else ():
                alive[epoch] += high - low
        assert max(alive) == expected[pool["name"]].live_bytes


def test_buffers_alive_together_do_not_overlap(demo: tuple) -> None:
    made, found = demo
    drawn = memory_map(found.profile, made)
    for pool in drawn["pools"]:
        rows = [(*drawn["buffers"][b][1:3], low, high) for b, low, high in pool["pieces"]]
        for n, (first, last, low, high) in enumerate(rows):
            for other in rows[n + 1 :]:
                together = first < other[1] and other[0] < last
                assert not (together and low < other[3] and other[2] < high)


def test_memories_are_told_apart_by_the_machine(demo: tuple) -> None:
    made, found = demo
    kinds = {pool.name: pool_kind(pool.name, made.machine) for pool in made.machine.pools}
    assert kinds["npuRAM5"] == "npu" and kinds["cpuRAM2"] == "chip"
    assert kinds["octoFlash"] == "flash" and kinds["hyperRAM"] == "external"
    rates = {
        row["kind"]: row["bytes_per_s"] for row in roofs(found.profile, made.machine)["memories"]
    }
    assert rates == {"npu": 28.8e9, "chip": 3.2e9, "flash": 0.4e9, "external": 0.8e9}


def test_seven_hundred_epochs_stay_below_two_megabytes() -> None:
    page = page_of(*explained(deep_graph(700)))
    assert len(data_of(page)["epochs"]) >= 700
    assert len(page.encode()) < 2_000_000


def test_stats_buffers_have_a_page() -> None:
    tables = opstats_of(stats(program(layout()).layout))
    data = data_of(opstats_page([tables], "one buffer", ["<b>a note</b>"]))
    assert data["view"] == "opstats" and data["notes"] == ["<b>a note</b>"]
    assert len(data["buffers"][0]["threads"]) == sum(len(core.threads) for core in tables.cores)
    assert data["ops"] == sorted(data["ops"], key=lambda row: -row["us"])
    told = {figure["name"]: figure["value"] for figure in data["figures"]}
    assert told["Bound by"] == tables.verdict.bound.value
    nodes = [row for module in data["modules"] for row in module["nodes"]]
    assert [row[0] for row in nodes] == [row.node for row in tables.nodes]
    cycles = sum(module["cycles"] for module in data["modules"])
    assert cycles == sum(row.hvx_pcycles + row.hmx_pcycles for row in tables.nodes)
    assert data["advice"]["verdict"] == tables.verdict.sentence
    assert [row["name"] for row in data["advice"]["levers"]] == [one.name for one in tables.levers]


# The command line.


@pytest.mark.parametrize("verb", ["estimate", "profile"])
def test_a_verb_writes_the_report(
    verb: str, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"
    assert main([verb, str(tiny_model), "--html", str(target)]) == 0
    assert capsys.readouterr().out.startswith(
        "fits; weights in octoFlash (all could fit on chip); "
    )
    data = data_of(target.read_text(encoding="utf-8"))
    assert data["title"] == tiny_model.name
    assert data["memory"]["pools"] and data["roofs"] and data["explained"]


def test_a_devices_run_has_a_report(tiny_model: Path, tmp_path: Path) -> None:
    log, with_build, bare = (tmp_path / name for name in ("run.log", "a.html", "b.html"))
    words = ["profile", str(tiny_model), "--log", str(log), "--html", str(with_build)]
    assert main(words) == 0
    assert data_of(with_build.read_text(encoding="utf-8"))["memory"]
    assert main(["profile", "--connect", f"log:{log}", "--html", str(bare)]) == 0
    assert data_of(bare.read_text(encoding="utf-8"))["memory"] is None


@pytest.mark.parametrize("verb", ["estimate", "profile"])
def test_the_model_is_not_overwritten(
    verb: str, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tiny_model.read_bytes()
    assert main([verb, str(tiny_model), "--html", str(tiny_model)]) == 2
    assert "this is the input file" in capsys.readouterr().err
    assert tiny_model.read_bytes() == before


def test_the_demo_leaves_a_report(tmp_path: Path) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo"), "-q"]) == 0
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert data_of(page)["title"] == "demo"


def test_opstats_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = program(layout())
    qpc = tmp_path / "programqpc.bin"
    qpc.write_bytes(write_program(made))
    network = made.layout.specializations[0].name
    name = f"aic-profiling-program-0-activation-0-inf-3-{network}-aiccyclecounts.bin"
    save(tmp_path, name, write_buffer(stats(made.layout, device=0, inference=3)))
    target = tmp_path / "new.html"
    words = ["opstats", "--qpc", str(qpc), "--input-dir", str(tmp_path), "--html"]
    assert main([*words, str(target)]) == 0
    assert capsys.readouterr().out.startswith("1 buffer ")
    data = data_of(target.read_text(encoding="utf-8"))
    assert (data["view"], data["buffers"][0]["inference"]) == ("opstats", 3)
    before = qpc.read_bytes()
    assert main([*words, str(qpc)]) == 2
    assert qpc.read_bytes() == before


# Pages of other verbs.


def written(words: list[str], target: Path) -> dict:
    main([*words, "--html", str(target)])
    return data_of(target.read_text(encoding="utf-8"))


def test_compare_writes_a_page(tiny_model: Path, tmp_path: Path) -> None:
    data = written(["compare", str(tiny_model), "--b", "generation=2.2"], tmp_path / "c.html")
    assert data["view"] == "compare"
    a, b = data["sides"]
    assert b["total_ms"] - a["total_ms"] == pytest.approx(data["delta_ms"], abs=1e-5)
    assert sum(spent for _, spent, _ in data["causes"]) == pytest.approx(data["delta_ms"], abs=1e-5)
    assert sum(epoch[2] for epoch in a["starts"]) == pytest.approx(a["total_ms"], abs=1e-5)


def test_a_table_of_machines_is_a_page(tiny_model: Path, tmp_path: Path) -> None:
    words = ["compare", str(tiny_model), "--machines", "stm32n6,cloudai100"]
    data = written(words, tmp_path / "m.html")
    assert (data["view"], data["title"]) == ("machines", tiny_model.name)
    assert [row["cells"][0] for row in data["machines"]] == ["stm32n6", "cloudai100"]
    assert all(len(row["cells"]) == len(data["heads"]) for row in data["machines"])
    fastest = min(data["machines"], key=lambda row: row["ms"])
    assert f"fastest on {fastest['cells'][0]}, {fastest['cells'][1]} ms" in data["answer"]


def test_fix_writes_a_page(tiny_model: Path, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.tflite"
    words = ["fix", str(tiny_model), "--drop-softmax", "-o", str(fixed), "--seeds", "1"]
    data = written(words, tmp_path / "f.html")
    assert data["view"] == "fix" and fixed.is_file()
    assert [side["letter"] for side in data["sides"]] == ["before", "after"]
    (step,) = [step for step in data["applied"] if step["fix"] == "drop-softmax"]
    assert step["after_ms"] < step["before_ms"]
    assert data["said"] == f"written to {fixed}"


def test_fix_has_one_side_where_nothing_helps(tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(conv_net()))
    data = written(["fix", str(model), "--only", "NA-SOFTMAX"], tmp_path / "f.html")
    assert len(data["sides"]) == 1 and data["applied"] == data["outputs"] == []


def test_gate_writes_a_page(tiny_model: Path, tmp_path: Path) -> None:
    words = ["gate", str(tiny_model), "--max", "total_ms=0.001", "--min", "HW=1"]
    data = written(words, tmp_path / "g.html")
    assert data["view"] == "gate" and data["passed"] is False
    assert [check["passed"] for check in data["checks"]] == [False, True]
    assert data["comparison"] is None
    words = ["gate", str(tiny_model), "--baseline", str(tiny_model)]
    assert written(words, tmp_path / "b.html")["comparison"]["delta_ms"] == 0


def test_modules_come_from_names() -> None:
    names = {
        "Conv:model/block5a_expand_1/conv": ["model", "block5a", "expand_1"],
        "/model.2/m.0/cv1/conv/Conv": ["model.2", "m.0", "cv1", "conv"],
        "CONV_2D:#12": [],
        "model/dense/MatMul;model/dense/bias": ["model", "dense"],
    }
    made, found = explained(deep_graph(len(names)))
    epochs = [
        replace(epoch, origin=(name,))
        for epoch, name in zip(made.program.executed, names, strict=True)
    ]
    program = replace(made.program, epochs=tuple(epochs))
    assert epoch_modules(found.profile, program) == list(names.values())
