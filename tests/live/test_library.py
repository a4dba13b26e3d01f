"""The models of a live view: figures as of the verbs, kept builds, fixes one after another."""

from __future__ import annotations

import os
import shlex
import threading
from pathlib import Path

import pytest

from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from npuscope.errors import FileError, UsageError
from npuscope.families.registry import first_family
from npuscope.live import answers
from npuscope.live.library import Library, check_models, fix_name
from npuscope.live.setting import Setting, first_setting, setting_from
from npuscope.machine.load import load_machine
from npuscope.machine.mpool import mpool_text
from npuscope.structs import replace


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


@pytest.fixture
def library(model: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr(Library, "ahead", lambda self, shown: None)
    return Library([model], [], {})


@pytest.mark.parametrize(
    ("setting", "options"),
    [
        (Setting(), {}),
        (Setting(generation="2.2", epoch_controller=False), {"generation": "2.2",
            "epoch_controller": False}),
        (Setting(optimization=1), {"optimization": 1}),
        (Setting(values=(("clocks.npu_mhz", "500"),)), {"npu_mhz": 500}),
        (Setting(values=(("npu.clock_mhz", "500"), ("pools.npuRAM5.size_kib", "64"))),
            {"overrides": {"npu.clock_mhz": 500, "pools.npuRAM5.size_kib": 64}}),
        (Setting(values=(("flash", "octo-dtr-50"),)), {"flash": "octo-dtr-50"}),
    ],
)  # fmt: skip
def test_it_says_what_the_verbs_say(
    library: Library, model: Path, setting: Setting, options: dict
) -> None:
    # Without compiled changes: the page offers them as switches.
    told = first_family().explain(model, options)
    for _ in range(2):  # built, then kept
        found = library.shown(setting).found
        assert found.profile == told.profile
        assert found.findings == told.findings


def test_another_clock_builds_nothing(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    before = library.shown(Setting())

    def refuse(*_: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(Library, "_opened", refuse)
    after = library.shown(Setting(values=(("clocks.npu_mhz", "500"),)))
    assert after.found.profile.total_ms > before.found.profile.total_ms
    with pytest.raises(AssertionError, match="built again"):
        library.shown(Setting(values=(("pools.npuRAM5.size_kib", "64"),)))  # a mapping key does


def test_a_file_that_was_written_again_is_read_again(library: Library, model: Path) -> None:
    before = library.shown(Setting()).found.profile.total_ms
    model.write_bytes(to_tflite(mobilenet_like(size=64)))
    os.utime(model, ns=(1, 1))
    assert library.shown(Setting()).found.profile.total_ms != before


def test_fixes_are_applied_in_their_order(library: Library) -> None:
    plain = library.shown(Setting())
    softmax = next(fix_name(one) for one in plain.offers if one.fix.id == "drop-softmax")
    border = next(fix_name(one) for one in plain.offers if one.fix.id == "integer-output")
    fixed = library.shown(Setting(fixes=(softmax, border)))
    assert len(fixed.states) == 3
    assert fixed.found.profile.total_ms < plain.found.profile.total_ms
    assert "NA-SOFTMAX" in {finding.rule for finding in plain.found.findings}
    assert "NA-SOFTMAX" not in {finding.rule for finding in fixed.found.findings}
    assert library.shown(Setting()).found.profile == plain.found.profile


def test_a_fix_that_does_not_fit_changes_nothing_and_says_why(library: Library) -> None:
    shown = library.shown(Setting(fixes=("NA-CONV-PRIME/pad-channels",)))
    assert shown.found.profile == library.shown(Setting()).found.profile
    assert shown.states[-1].refused == "not offered for the current network"


def test_what_is_wrong_is_told_as_by_the_verbs(library: Library) -> None:
    with pytest.raises(UsageError, match=r"the machine has no key 'clocks\.gpu_mhz'"):
        library.shown(Setting(values=(("clocks.gpu_mhz", "1"),)))
    with pytest.raises(UsageError, match="unknown generation '9'"):
        library.shown(Setting(generation="9"))


def test_many_threads_share_one_build(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    make = Library._opened
    monkeypatch.setattr(Library, "_opened", lambda self, b: built.append(1) or make(self, b))
    threads = [threading.Thread(target=library.shown, args=(Setting(),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [1]


def test_what_the_next_click_needs_is_built_beforehand(model: Path) -> None:
    library = Library([model], [], {})
    shown = library.shown(Setting())
    built = []
    make = Library._states
    done = threading.Event()

    class Watched(Library):
        def _states(self, setting, machine):
            found = make(self, setting, machine)
            built.append(setting)
            if setting.generation == "open":  # the last of them
                done.set()
            return found

    library.__class__ = Watched
    library.ahead(shown)
    assert done.wait(60)
    assert {"2.2", "3.0", "open"} <= {setting.generation for setting in built}
    offered = {(fix_name(one),) for one in shown.offers}
    assert offered <= {setting.fixes for setting in built}


def test_few_builds_are_kept(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuscope.live.library._MOST_BUILDS", 2)
    for level in range(4):
        library.shown(Setting(optimization=level))
    assert len(library._known) == 2


def test_a_failure_is_not_kept(library: Library, model: Path) -> None:
    whole = model.read_bytes()
    stamp = model.stat()
    model.write_bytes(whole[:-1] + b"x")
    model.write_bytes(b"x" * len(whole))
    os.utime(model, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(FileError):
        library.shown(Setting())
    model.write_bytes(whole)
    os.utime(model, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert library.shown(Setting()).found.profile.epochs


def test_a_program_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a compiled program, not a model"):
        check_models([tmp_path])


# --- Settings as JSON, and as a command line ---


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"model": 1}, "unknown model 1"),
        ({"model": -1}, "unknown model -1"),
        ({"pools": 1}, "unknown pool file 1"),
        ({"fixes": "all"}, "expected a list"),
        ({"values": [["a"]]}, "expected"),
        ({"path": "/etc/passwd"}, "unknown key"),
        ([], "expected an object"),
    ],
)
def test_a_wrong_setting_is_told(asked: object, message: str) -> None:
    with pytest.raises((UsageError, FileError), match=message):
        setting_from(asked, models=1, pools=0)


def test_a_setting_comes_back_as_it_went() -> None:
    setting = Setting(0, "2.2", False, 3, 0, (("clocks.npu_mhz", "800"),), ("A/b",))
    assert setting_from(answers.setting_json(setting), 1, 0) == setting


def test_options_are_where_a_tab_begins() -> None:
    told = first_setting(
        {"generation": "2.2", "npu_mhz": 800, "overrides": {"mcu.clock_mhz": 600}}, pools=1
    )
    values = (("clocks.npu_mhz", "800"), ("mcu.clock_mhz", "600"))
    slow = first_setting({"flash": "octo-dtr-50"}, pools=0)
    assert slow == Setting(values=(("flash", "octo-dtr-50"),))
    assert told == Setting(generation="2.2", pools=1, values=values)


def run_command(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    program, *words = shlex.split(text)
    assert program == "npuscope"
    assert main(words) == 0, text
    return capsys.readouterr().out


@pytest.mark.parametrize("fix", ["/drop-softmax", "/cut-tail"])
def test_the_command_gives_the_same_figures(
    fix: str,
    tmp_path: Path,
    model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Library, "ahead", lambda self, shown: None)
    pools = tmp_path / "own pools.mpool"
    pools.write_text(mpool_text(load_machine()), encoding="utf-8")
    library = Library([model], [pools], {"output_data_type": "float32"})
    asked = {
        "generation": "2.2", "epoch_controller": False, "optimization": 2, "pools": 1,
        "values": [["clocks.npu_mhz", "640"], ["pools.npuRAM5.size_kib", "128"],
            ["flash", "octo-dtr-50"]],
    }  # fmt: skip
    answer = answers.report(library, asked)
    told = run_command(f"{answer['command']} --quiet", capsys)
    assert told.strip() == answer["report"]["answer"]
    fixes = [row["id"] for row in answer["fixes"] if row["id"].endswith(fix)]
    assert len(fixes) == 1
    fixed = answers.report(library, {**asked, "fixes": fixes})
    assert fixed["report"]["total_ms"] < answer["report"]["total_ms"]
    monkeypatch.chdir(tmp_path)
    run_command(fixed["command"], capsys)
    again = replace(library.shown(setting_from(asked, 1, 1)).setting, fixes=())
    on_fixed = Library([tmp_path / "net_fixed.tflite"], [pools], library.options).shown(again)
    assert on_fixed.found.profile.total_ms == pytest.approx(fixed["report"]["total_ms"])


def test_ops_behind_an_edit_keep_their_names_in_a_comparison(library: Library) -> None:
    found = answers.comparison(library, [{}, {"fixes": ["/cut-tail"]}])
    assert found["delta_ms"] < 0
    rows = [row for row in found["rows"] if row["a"] == 0]
    assert all("(new)" in name for row in rows for name in row["ops"])
    assert answers.comparison(library, [{}, {}])["answer"].startswith("no difference")
