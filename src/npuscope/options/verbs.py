"""Every option once: the command line, the keywords in Python and docs/cli.md are made from here.

`VERBS` lists what each verb takes. An Option has the keyword of Python as its name and one or more
spellings on the command line; `vendor` spellings are those of the vendor's tools.
"""

from __future__ import annotations

from npuscope.lean_dataclass import replace
from npuscope.options import core_rows, rows
from npuscope.options.kinds import (
    Argument,
    Group,
    Kind,
    Verb,
    file,
    flag,
    option,
    text,
    whole,
)

VERBS: dict[str, Verb] = {
    "demo": Verb(
        "the main job on a built-in network: compile, simulate, profile",
        (),
        (
            Group(
                "",
                (
                    file(
                        "directory",
                        "folder for the reports (default npuscope-demo)",
                        "DIR",
                        default="npuscope-demo",
                        flags=("-o", "--output"),
                    ),
                ),
            ),
            rows.TARGET,
            rows.BUILT_IN,
            rows.OUTPUT,
        ),
    ),
    "estimate": Verb(
        "whether a model fits and how fast it is: one screen, no files",
        (rows.SOURCE,),
        (Group("", rows.ESTIMATE), rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "compile": Verb(
        "a model to the program that the device executes",
        (Argument("source", "MODEL", "a model: .tflite or QDQ .onnx", "?"),),
        (
            Group("", rows.COMPILE),
            rows.TARGET,
            rows.READING,
            rows.VENDOR,
            rows.OUTPUT,
        ),
    ),
    "profile": Verb(
        "run a model on a device and report every epoch",
        (replace(rows.SOURCE, many="?"),),
        (
            Group("", rows.PROFILE),
            Group("device", rows.DEVICE),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "board": Verb(
        "serve a virtual board to any client",
        (
            Argument(
                "action", "ACTION", "serve: answer the vendor's protocol", "", ("serve",), False
            ),
            Argument("sources", "SOURCE", rows.SOURCE_HELP, "+"),
        ),
        (
            Group(
                "connection",
                (
                    flag("pty", "a pseudo terminal, used as a serial port"),
                    whole("tcp", "a TCP port; 0 for any free one", "PORT"),
                    text(
                        "host",
                        "address for --tcp (default: this computer only)",
                        "",
                        default="127.0.0.1",
                    ),
                ),
                exclusive=("pty", "tcp"),
                needs_one=True,
            ),
            Group(
                "",
                (
                    flag("emulated", "firmware on an emulated Cortex-M answers"),
                    text("ready", "called with address and networks", "FUNCTION", shell=False),
                ),
            ),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "export": Verb(
        "what layers cost, for Model Explorer and Netron",
        (rows.SOURCE,),
        (
            Group(
                "",
                (
                    file("model_explorer", "node data (JSON) for Google's Model Explorer"),
                    file("netron", "an annotated ONNX file for Netron"),
                    file("model", "the model of a compiled program or a saved profile", "M"),
                ),
            ),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "explain": Verb(
        "why it is slow or off the NPU, and what to change",
        (rows.SOURCE,),
        (
            Group(
                "",
                (
                    flag("strict", "exit code 1 when there are errors or warnings", python=False),
                    rows.COMPILED_FROM,
                    option("batch", Kind.WHOLE, "inferences to run", default=0, shell=False),
                ),
            ),
            rows.TARGET,
            rows.READING,
            rows.FINDINGS,
            rows.OUTPUT,
        ),
    ),
    "lint": Verb(
        "risks visible in the model file alone",
        (Argument("source", "MODEL", "a model: .tflite or .onnx"),),
        (rows.LOOKED_AT, rows.READING, rows.FINDINGS, rows.OUTPUT),
    ),
    "fix": Verb(
        "edits of the model that help: applied, compiled again, timed and compared",
        (Argument("model", "MODEL", "a .tflite or .onnx model", dest="source"),),
        (
            Group(
                "",
                (
                    file(
                        "output",
                        "file for the fixed model; without it nothing is written",
                        "FIXED",
                        flags=("-o", "--output"),
                    ),
                    *rows.COMPARED_ON,
                    rows.HTML,
                ),
            ),
            Group("which fixes (default: those that keep the network's function)", rows.FIX),
            Group("images", rows.IMAGES),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "serve": Verb(
        "the report as an application in the browser: change, toggle, compare",
        (Argument("models", "MODEL", "a .tflite or .onnx model; one or more", "+"),),
        (Group("", rows.SERVE), rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "quantize": Verb(
        "a float model to the int8 form that the machine likes best, measured layer by layer",
        (Argument("model", "MODEL", "a float .onnx or .tflite model", dest="source"),),
        (
            Group("", rows.QUANTIZE),
            Group("images", rows.IMAGES),
            rows.TARGET,
            rows.READING,
            rows.OUTPUT,
        ),
    ),
    "compare": Verb(
        "two runs by source op: what moved, and where the milliseconds went",
        (
            Argument("a", "A", rows.RUN_HELP, dest="first"),
            Argument("b", "B", "what to compare it with (default: A again)", "?", dest="second"),
        ),
        (Group("", rows.COMPARE), rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "gate": Verb(
        "limits on time, memory and epochs, with an exit code",
        (Argument("source", "SOURCE", rows.RUN_HELP),),
        (Group("", rows.GATE), rows.TARGET, rows.READING, rows.FINDINGS, rows.OUTPUT),
    ),
    "validate": Verb(
        "the NPU's arithmetic against the reference",
        (rows.SOURCE,),
        (Group("", (rows.COMPILED_FROM,)), rows.DATA, rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "bisect": Verb(
        "the first op whose NPU arithmetic differs from the reference",
        (rows.SOURCE,),
        (Group("", (rows.COMPILED_FROM,)), rows.DATA, rows.TARGET, rows.READING, rows.OUTPUT),
    ),
    "inspect": Verb(
        "say what a file or folder is and what is in it",
        (Argument("source", "FILE_OR_FOLDER", "any file or folder of the tools"),),
        (
            Group(
                "runtime-loadable images",
                (
                    file("compare", "what differs from another image"),
                    file(
                        "firmware_map",
                        "does the image load on this firmware: a TOML or JSON file, "
                        "or `stm32n6570-dk`",
                    ),
                ),
            ),
            rows.OUTPUT,
        ),
    ),
    "checklist": Verb(
        "what a build needs on the board: files, memories, caches",
        (Argument("source", "DIR", "a folder that a compiler wrote"),),
        (rows.OUTPUT,),
    ),
    "package": Verb(
        "turn a compiled network into an image that firmware loads at run time",
        (Argument("source", "DIR", "folder of a compiled network", "?"),),
        (Group("", rows.PACKAGE), rows.vendor_output("package.log")),
    ),
    "run": Verb(
        "load an image on a board (emulated by default) and run it",
        (
            Argument(
                "source", "IMAGE", "NAME_rel.bin or a build folder (build/network_rel.bin)", "?"
            ),
        ),
        (Group("", rows.RUN), rows.vendor_output("run.log")),
    ),
    "deploy": Verb(
        "a network onto a real board: signing, addresses, order, boot switches",
        (Argument("source", "DIR", "a build folder, or NAME_rel.bin of `package`"),),
        (Group("", rows.DEPLOY), rows.OUTPUT),
    ),
    "manycore": Verb("compile for a many-core accelerator, and run it", (), ()),
    "manycore compile": Verb(
        "a network to a program for many cores, with its stats layout",
        (),
        (
            Group("", core_rows.CORE_COMPILE),
            Group("stats", core_rows.CORE_STATS),
            Group("machine", core_rows.CORE_TARGET),
            Group("the vendor's options", core_rows.CORE_VENDOR),
            rows.OUTPUT,
        ),
    ),
    "manycore run": Verb(
        "run a compiled program on the simulated device and collect its stats",
        (),
        (
            Group("", core_rows.CORE_RUN),
            Group("profiling", core_rows.CORE_PROFILING),
            Group("simulation", core_rows.CORE_SIMULATION),
            rows.OUTPUT,
        ),
    ),
    "opstats": Verb(
        "stats buffers of a many-core accelerator as summaries and traces",
        (),
        (
            Group("", core_rows.OPSTATS),
            Group("results, at least one", core_rows.OPSTATS_RESULTS),
            Group("trace", core_rows.OPSTATS_TRACE),
            Group("sources", core_rows.OPSTATS_SOURCES),
        ),
    ),
    "disasm": Verb(
        "epoch-controller blobs to text",
        (Argument("source", "FILE", "a *_ecblobs.h, or the bytes of one blob"),),
        (
            Group(
                "",
                (
                    text("blob", "one blob of a header (default: all)"),
                    file("output", "write the text to FILE", flags=("-o", "--output")),
                ),
            ),
            rows.OUTPUT,
        ),
    ),
    "asm": Verb(
        "text to an epoch-controller blob",
        (Argument("source", "FILE", "text, as `disasm` writes it"),),
        (
            Group(
                "",
                (
                    file(
                        "output",
                        "a C header if it ends in .h, else the blob's bytes",
                        "OUT",
                        flags=("-o", "--output"),
                        required=True,
                    ),
                    text("name", "suffix of the array's name in a header (default 1)", default="1"),
                ),
            ),
            rows.OUTPUT,
        ),
    ),
    "sweep": Verb(
        "many models, machines and options: one row per run, resumable",
        (
            Argument(
                "words",
                "SPEC.toml | report STORE",
                "the sweep file with the runs to do, or `report` and the store that they left",
                "+",
                (),
                False,
            ),
        ),
        (
            Group("", (file("spec", "the sweep file", shell=False),)),
            Group("runs", rows.SWEEP_RUNS),
            Group("dask cluster", rows.SWEEP_CLUSTER),
            Group("report", rows.SWEEP_REPORT),
            rows.OUTPUT,
        ),
        rows.SWEEP_USAGE,
    ),
    "sweep report": Verb(
        "evaluate a store: best runs, latency against memory, failures",
        (Argument("store", "STORE", "the store that runs left"),),
        (Group("report", rows.SWEEP_REPORT), rows.OUTPUT),
    ),
    "machines": Verb(
        "the known machines and compiler generations",
        (),
        (
            Group(
                "",
                (
                    text(
                        "keys",
                        "all keys for --set with value, mark (timing or mapping) and source; "
                        "with TEXT only those with it in their name or mark",
                        "TEXT",
                        const="",
                        python=False,  # of one machine: npuscope.machine_keys(...)
                    ),
                ),
            ),
            rows.OUTPUT,
        ),
    ),
    "rules": Verb(
        "the rules that explain and lint check",
        (Argument("rule", "ID", "one rule, with cause and fixes", "?"),),
        (rows.OUTPUT,),
    ),
    "completion": Verb(
        "completion of verbs, options and values for a shell",
        (Argument("shell", "SHELL", "bash, zsh or fish", "", ("bash", "zsh", "fish")),),
        (rows.OUTPUT,),
    ),
    "doctor": Verb("what is installed, and what each missing part would add", (), (rows.OUTPUT,)),
}

# --- Functions that exist in Python only ---
_BUILDING = (rows.TARGET, rows.READING)
PYTHON_ONLY: dict[str, Verb] = {
    "what_if": Verb(
        "compare the network before and after changing keys of the machine",
        (rows.SOURCE, Argument("values", "VALUES", "the changed keys with their values")),
        _BUILDING,
    ),
    "sensitivity": Verb("timing keys that save most time", (rows.SOURCE,), _BUILDING),
    "measure": Verb(
        "profile a device block by block, with all its counters",
        (rows.SOURCE,),
        (
            Group("", tuple(o for o in rows.PROFILE if o.name == "batch")),
            Group(
                "device", tuple(o for o in rows.DEVICE if o.name not in ("log", "vendor_figures"))
            ),
            *_BUILDING,
        ),
    ),
}
