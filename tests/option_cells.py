"""Cells of the test over verbs, options and families: what each verb is called with, and a value to
try for every option. The cells themselves come from the verbs' own records."""

from __future__ import annotations

from msgspec import Struct

from npuscope.options.kinds import Option, OptionKind, VendorEffect

# A machine of each family; the first needs no option.
MACHINES = {"stm32n6": "", "ethos-u": "ethos-u55-128", "cloudai100": "cloudai100"}
NETS = {"stm32n6": "branch.onnx", "ethos-u": "conv.tflite", "cloudai100": "conv.tflite"}


class Try(Struct, frozen=True):
    """Words of the option; `beside` stands with and without it, `net` replaces the network."""

    words: str
    beside: str = ""
    net: str = ""
    base: str = ""  # replaces the call of the verb


# What a verb is called with; NET is its network.
CALLS = {
    "demo": "demo -o demo",
    "estimate": "estimate NET",
    "compile": "compile NET -o out",
    "profile": "profile NET",
    "board": "board serve NET --tcp 0",
    "export": "export NET --model-explorer graph.json",
    "explain": "explain NET",
    "lint": "lint NET",
    "fix": "fix SMALL -o OUT",
    "serve": "serve NET",
    "quantize": "quantize plain.onnx -o int8.onnx --data random --samples 4",
    "tune": "tune SMALL --max ms=90 --jobs 1",
    "compare": "compare NET mobilenet.tflite",
    "gate": "gate NET --max total_ms=90",
    "validate": "validate SMALL",
    "bisect": "bisect SMALL",
    "triage": "triage NET --time 9",
    "inspect": "inspect NET",
    "plan": "plan app.toml",
    "checklist": "checklist far/away/build",
    "package": "package relative",
    "run": "run -i image/network_rel.bin",
    "deploy": "deploy NET",
    "manycore compile": "manycore compile -model=conv.tflite -aic-binary-dir=bin",
    "manycore run": "manycore run --test-data=qpc",
    "manycore setups": "manycore setups conv.tflite",
    "manycore tokens": "manycore tokens decoder.onnx",
    "opstats": "opstats --qpc qpc/programqpc.bin --input-dir stats --output-dir tables --summary",
    "disasm": "disasm net_vela.tflite",
    "asm": "asm blob.txt -o blob.h",
    "sweep": "sweep sweep.toml --jobs 1",
    "sweep report": "sweep report swept.jsonl",
    "machines": "machines",
    "rules": "rules",
    "mcp": "mcp .",
    "completion": "completion bash",
    "doctor": "doctor",
}

# Verbs that refuse every machine of a family.
UNSUPPORTED = {
    *(
        (verb, family)
        for verb in ("triage", "deploy", "board")
        for family in ("ethos-u", "cloudai100")
    ),
    ("bisect", "cloudai100"),
    ("quantize", "cloudai100"),
}
# Verbs whose calls take long, or differ each time: whether a reason is still true is not tried.
LONG = ("validate", "bisect", "tune", "quantize", "doctor")
# Packages without which a verb's call fails.
NEEDS = {
    "package": "ziglang",
    "run": "ziglang",
}

SAYS = 'triage conv.tflite --says "all outputs equal 0"'
LABELLED = "--data pictures --labels labels.csv"
CORE = "manycore compile -aic-binary-dir=bin -model"
STATS = "--num-iter=4 --aic-profiling-type=raw_device_stats --aic-profiling-out-dir=stats"
WRITTEN = "--num-iter=4 --write-output-dir stats"
TABLES = "opstats --qpc qpc/programqpc.bin --input-dir stats --output-dir tables"
SIDE = ("npu_mhz=321", "set.clock_mhz=321", "set.clocks.core_mhz=321")
# By "verb.option", "family:option" or the option; several are tried until one shows.
VALUES: dict[str, tuple[Try, ...]] = {
    # The machine and what is compiled
    "machine": (Try("--machine ethos-u55-256"),),
    "ethos-u:machine": (),  # is part of the call
    "cloudai100:machine": (),
    "machine_file": (Try("--machine-file mine.toml"),),
    "generation": (Try("--generation 2.1"),),
    "art_profile": (Try("--art-profile small@art.json"),),
    "optimization": (Try("-O0", net="branch.onnx"),),
    "alternative_schedule": (Try("--Oalt-sched", net="branch.onnx"),),
    "max_ca_pipe": (Try("--Omax-ca-pipe 1", net="branch.onnx"),),
    "board": (Try("--board nucleo-n657x0-q"), Try("--board nucleo-n657x0-q", net="wide.tflite")),
    "mcu_mhz": (Try("--mcu-mhz 400"),),
    "npu_mhz": (Try("--npu-mhz 400"),),
    "flash": (Try("--flash octo-dtr-50"),),
    "check": (Try("--check", base="plan planned"),),
    "export.model": (
        Try(
            "--model NET",
            base="export far/away/build --set units.CONVACC=2 --model-explorer graph.json",
        ),
        Try("--model NET"),
    ),
    "ethos-u:psram": (Try("--psram octo-dtr-200"),),
    "cloudai100:psram": (Try("--psram octo-dtr-200"),),
    "fix.psram": (Try("--psram nothing"),),
    "tune.psram": (Try("--psram nothing"),),
    "quantize.psram": (Try("--psram nothing"),),
    "psram": (Try("--psram octo-dtr-200", net="large_image.tflite"),),
    "mpool": (Try("--mpool small.mpool"),),
    "mdesc": (Try("--mdesc small.mdesc"), Try("--mdesc missing.mdesc")),
    "overrides": (Try("--set clocks.npu_mhz=321"),),
    "ethos-u:overrides": (Try("--set clock_mhz=321"),),
    "cloudai100:overrides": (Try("--set clocks.core_mhz=321"),),
    "inputs_ch_position": (Try("--inputs-ch-position chlast", net="branch.onnx"),),
    "outputs_ch_position": (Try("--outputs-ch-position chlast", net="branch.onnx"),),
    "shapes": (
        Try("--shape x=1,3,9,9", net="open.onnx"),
        Try("--shape nothing=1,2"),
    ),
    "as_int8": (Try("--as-int8", net="float.onnx"), Try("--as-int8")),
    # No rule hits these networks by a value of the machine; that the files are read shows.
    "lint.machine_file": (Try("--machine-file missing.toml"),),
    "lint.art_profile": (Try("--art-profile missing@art.json"),),
    "lint.mpool": (Try("--mpool missing.mpool"),),
    "lint.mdesc": (Try("--mdesc missing.mdesc"),),
    "lint.overrides": (Try("--set nothing=1"),),
    "weights": (
        Try("--weights missing.raw", net="far/away/build"),
        Try("--weights missing.raw"),
    ),
    "model": (Try("--model NET", base="{verb} far/away/build --set units.CONVACC=2"),),
    "ethos-u:model": (Try("--model NET"), Try("--model missing.tflite")),
    "cloudai100:model": (Try("--model NET"), Try("--model missing.tflite")),
    "force": (Try("--force", beside="--json foreign.json"),),
    "baseline": (Try("--baseline mobilenet.tflite"),),
    "github": (Try("--github", base="gate NET --max total_ms=0.00001"),),
    "most": (Try("--max total_ms=0.00001", base="gate NET --min total_ms=0"),),
    "least": (Try("--min total_ms=9"),),
    "tolerance": (
        Try("--tol 9%", base="gate NET --baseline NET --set clocks.npu_mhz=990"),
        Try("--tol 9%", base="gate NET --baseline NET"),
    ),
    "a_options": (
        Try("--a npu_mhz=321"),
        Try("--a optimise=Size"),
        Try("--a set.clocks.core_mhz=9"),
    ),
    "b_options": (
        Try("--b npu_mhz=321"),
        Try("--b optimise=Size"),
        Try("--b set.clocks.core_mhz=9"),
    ),
    "machines": (Try("--machines stm32n6,cloudai100"),),
    "compare.noise": (Try("--noise much"),),
    # profile
    "batch": (Try("--batch 3"),),
    "epochs": (Try("--epochs 1"),),
    "connect": (Try("--connect log:run.log"),),
    "profile.network": (Try("--name other", beside="--vendor-plan"), Try("--name other")),
    "cfile": (
        Try("--cfile far/away/build", base="profile --vendor-plan"),
        Try("--cfile far/away/build"),
    ),
    # compile
    "compile.directory": (Try("-o other"),),
    "compile.model": (Try("-m NET", base="compile -o out"),),
    "target": (Try("--target cloudai"),),
    "name": (Try("--name other"),),
    "d_lower": (Try("--d-lower 1"),),
    "csv_file": (Try("--csv-file other.csv"),),
    "output_info_file": (Try("--output-info-file other.json"),),
    # Samples
    "inputs": (Try("--inputs ones.npy", net="conv.tflite"),),
    "seeds": (Try("--seeds 3"),),
    "data": (Try("--data pictures", net="conv.tflite"), Try("--data missing")),
    "labels": (Try("--labels labels.csv", beside="--data pictures", net="mobilenet.tflite"),),
    "float_model": (Try("--float mobilenet.tflite", beside=LABELLED, net="mobilenet.tflite"),),
    "quantize.labels": (Try("--labels labels.csv", beside="--data many"),),
    "quantize.task": (Try("--task anomaly", beside="--data many --labels labels.csv"),),
    "quantize.outputs_ch_position": (
        Try(
            "--outputs-ch-position chlast",
            base="quantize map.onnx -o int8.onnx --data random --samples 4",
        ),
    ),
    "quantize.layout": (Try("--layout nhwc", beside="--data pictures"),),
    "quantize.resize": (Try("--resize crop", beside="--data pictures"),),
    "preprocess": (Try("--preprocess mean=3,std=2", beside=LABELLED, net="mobilenet.tflite"),),
    "quantize.preprocess": (Try("--preprocess mean=3,std=2", beside="--data pictures"),),
    "limit": (Try("--limit 1"), Try("--limit 1", beside=LABELLED, net="mobilenet.tflite")),
    "mean": (Try("--mean 0.3", beside="--data pictures", net="conv.tflite"),),
    "std": (Try("--std 0.3", beside="--data pictures", net="conv.tflite"),),
    "pixel_max": (Try("--pixel-max 9", beside="--data pictures", net="conv.tflite"),),
    "samples": (Try("--samples 3"),),
    "seed": (Try("--seed 3"),),
    "loss_db": (Try("--loss-db 90"),),
    "max_drop": (Try("--max-drop 1%"),),
    "max_flash": (Try("--max-flash 1"),),
    # fix, tune, sweep
    "fix.output": (Try("-o other.tflite", net="conv.tflite"),),
    "quantize.output": (Try("-o other.onnx"),),
    "tune.output": (Try("-o tuned"),),
    "only": (Try("--only drop-softmax", net="mobilenet.tflite"),),
    "tune.models": (Try("--models pictures"),),
    "limits": (Try("--max ms=0.00001", base="tune SMALL --max ram=2 --jobs 1"),),
    "generations": (Try("--generations 2.2,4.0"),),
    "sizes": (Try("--sizes 8x8", beside="--data pictures"), Try("--sizes 8x8")),
    "tune.machines": (Try("--machines stm32n6,cloudai100"),),
    "evaluations": (Try("--evaluations 1"),),
    "store": (Try("--store kept.jsonl"), Try("-o kept.jsonl")),
    "jobs": (Try("--jobs 0"),),
    "scheduler": (Try("--scheduler tcp://127.0.0.1:9"),),
    "local_cluster": (Try("--local-cluster 0"),),
    "timeout": (Try("--timeout 0"),),
    "tls_ca": (Try("--tls-ca missing.pem"),),
    "tls_cert": (Try("--tls-cert missing.pem"),),
    "tls_key": (Try("--tls-key missing.pem"),),
    # Devices, builds, images
    "tcp": (Try("--tcp 99999"),),
    "host": (Try("--host 999.9.9.9"),),
    "port": (Try("--port 99999"),),
    "pools": (Try("--pools small.mpool"),),
    "triage.model": (
        Try("--model NET", base="triage far/away/build --set units.CONVACC=2 --time 9"),
    ),
    "triage.inputs": (Try("--inputs ones.npy", base=SAYS),),
    "triage.outputs": (Try("--outputs ones.npy", base=SAYS),),
    "previous": (Try("--previous ones.npy", base=SAYS),),
    "seen": (Try("--seen output=missing.npy", base=SAYS),),
    "says": (Try('--says "all outputs equal 0"'),),
    "other": (Try("--other missing.tflite", base=SAYS),),
    "triage.time": (Try("--time 5", base="triage NET --time 9"),),
    "triage.log": (Try("--log run.log"), Try("--log missing.log")),
    "inspect.compare": (Try("--compare mobilenet.tflite"),),
    "firmware_map": (Try("--firmware-map foreign.json"),),
    "plan.output": (Try("-o elsewhere"),),
    "input": (Try("-i missing"),),
    "package.directory": (Try("-o other"),),
    "demo.directory": (Try("-o other"),),
    "address": (Try("--address 0x71000040"), Try("--address nothing")),
    "mode": (Try("--mode xip"), Try("--mode other")),
    "fsbl": (Try("--fsbl boot.hex"),),
    "application": (Try("--application app.hex"),),
    "compile.application": (Try("--application yolov8"),),
    "disasm.output": (Try("-o other.txt"),),
    "asm.output": (Try("-o other.bin"),),
    "asm.name": (Try("--name other"),),
    "blob": (Try("--blob other"),),
    "keys": (Try("--keys clocks"),),
    "package.input": (Try("-i relative", base="package"),),
    "run.input": (Try("-i missing"),),
    "run.batch": (Try("--batch 3"),),
    "retry_failed": (Try("--retry-failed", base="sweep bad.toml --jobs 1"),),
    # Many cores
    "manycore compile.model": (Try("-model=mobilenet.tflite"),),
    "manycore compile.directory": (Try("-aic-binary-dir=other"),),
    "stats_level": (Try("-stats-level=70"),),
    "stats_batchsize": (Try("-stats-batchsize=4"),),
    "pmu_recipe": (Try("-aic-pmu-recipe=AxiRd"),),
    "pmu_events": (Try("-aic-pmu-events=3F"),),
    "cores": (Try("--cores 1"),),
    "devices": (Try("--devices 2"), Try("--devices 1,2")),
    "batchsize": (Try("-batchsize=2", net="open.onnx"), Try("-batchsize=0")),
    "onnx_define_symbol": (
        Try("-onnx-define-symbol=rows,9", base=f"{CORE} open.onnx -onnx-define-symbol=columns,9"),
    ),
    "network_specialization_config": (Try("-network-specialization-config=missing.json"),),
    "mos": (Try("-mos=1", base=f"{CORE} mobilenet.tflite"), Try("-mos=x")),
    "size_split_granularity": (Try("-size-split-granularity=1"), Try("-size-split-granularity=0")),
    "aic_enable_depth_first": (Try("-aic-enable-depth-first=true"),),
    "aic_depth_first_mem": (Try("-aic-depth-first-mem=1"),),
    "mdp_load_partition_config": (Try("-mdp-load-partition-config=missing.json"),),
    "mdp_dump_partition_config": (Try("-mdp-dump-partition-config=parts.json"),),
    "perf_warnings": (Try("-aic-perf-warnings", base=f"{CORE} large_image.tflite"),),
    "test_data": (Try("--test-data=missing"),),
    "num_iter": (Try("--num-iter=5"),),
    "manycore run.time": (Try("--time 0.001"),),
    "activations": (Try("--activations 2"),),
    "specialization": (Try("--specialization other"),),
    "program": (Try("--program 3", beside=STATS),),
    "set_size": (Try("--set-size 1", beside="--num-iter=9"), Try("--set-size 0")),
    "input_file": (Try("--input-file missing.raw"),),
    "manycore run.model": (Try("--model missing.tflite", beside="--write-output-dir stats"),),
    "aic_batch_input_file_list": (Try("--aic-batch-input-file-list missing.txt"),),
    "aic_batch_input_directory": (Try("--aic-batch-input-directory missing"),),
    "aic_batch_json_input": (Try("--aic-batch-json-input missing.json"),),
    "write_output_dir": (Try("--write-output-dir stats"),),
    "write_output_start_iter": (Try("--write-output-start-iter 1", beside=WRITTEN),),
    "write_output_num_samples": (Try("--write-output-num-samples 2", beside=WRITTEN),),
    "aic_profiling_type": (Try("--aic-profiling-type=stats"),),
    "aic_profiling_out_dir": (Try("--aic-profiling-out-dir=pictures", beside=STATS),),
    "aic_profiling_num_samples": (Try("--aic-profiling-num-samples=2", beside=STATS),),
    "aic_profiling_start_iter": (Try("--aic-profiling-start-iter=1", beside=STATS),),
    "aic_profiling_start_delay": (Try("--aic-profiling-start-delay=0.02", beside=STATS),),
    "want": (Try("--want pmu"),),
    "manycore run.seed": (Try("--seed 3", beside=STATS),),
    "manycore run.stats_overhead": (Try("--stats-overhead"),),
    "manycore run.verbose": (Try("-v debug"),),
    "manycore setups.batch": (Try("--batch 2"),),
    "copies": (Try("--copies 2"),),
    "in_flight": (Try("--in-flight 2"),),
    "prompt": (Try("--prompt 64"),),
    "context": (Try("--context 512"),),
    "prefill": (Try("--prefill 64"),),
    "opstats.qpc": (Try("--qpc missing.bin"),),
    "input_dir": (Try("--input-dir missing"),),
    "output_dir": (Try("--output-dir other"),),
    "opstats.summary": (Try("--summary", base=f"{TABLES} --trace"),),
    "host_trace": (Try("--host-trace missing.json"),),
    "select_cores": (Try("--select-cores 0", beside="--trace"),),
    "select_devices": (Try("--select-devices 7", beside="--trace"),),
    "merge_mq_traces": (Try("--merge-mq-traces false", beside="--trace"),),
    "merge_thread_groups": (Try("--merge-thread-groups false", beside="--trace"),),
    "flow_events": (Try("--flow-events full", beside="--trace"),),
    "show_barrier_events": (Try("--show-barrier-events", beside="--trace"),),
    "adapter": (Try("--adapter other"),),
    "raw_layout": (Try("--raw-layout missing.toml"),),
    "descriptors": (Try("--descriptors missing"),),
    # Of one family
    "objective": (Try("--objective latency"),),
    "system_config": (
        Try("--system-config Ethos_U55_Deep_Embedded"),
        Try("--system-config Ethos_U55_Deep_Embedded", net="wide.tflite"),
    ),
    "memory_mode": (Try("--memory-mode Sram_Only"),),
    "optimise": (Try("--optimise Size", net="wide.tflite"),),
    "arena_cache_size": (Try("--arena-cache-size 4096", net="wide.tflite"),),
    "vela": (Try("--vela no-such-vela"),),
    "vela_config": (Try("--vela-config no-such.ini"),),
}


def tries(verb: str, option: Option, family: str) -> tuple[Try, ...] | None:
    """None where nobody said what to try."""
    for name in (f"{verb}.{option.name}", f"{family}:{option.name}", option.name):
        if name in VALUES:
            return VALUES[name]
    long = option.long
    if option.effect is VendorEffect.REFUSED or option.kind is OptionKind.FLAG:
        return (Try(long), Try(long, net="mobilenet.tflite"))
    if option.kind is OptionKind.SWITCH:
        return (Try(long.replace("--", "--no-", 1)), Try(long))
    if option.effect is VendorEffect.NONE:
        return (Try(f"{long} x"),)
    if option.choices:
        others = (choice for choice in option.choices if choice != option.default)
        words = tuple(f"{long} {choice}" for choice in others)
        return (*map(Try, words), *(Try(one, net="mobilenet.tflite") for one in words))
    if option.writes:
        return (Try(f"{long} written.out"),)
    return None


# (verb, option, family), each with * for all: why it means nothing there.
_NO_TIME = "the arithmetic of the layers alone is looked at: neither times nor memories"
_NO_LOG = "it does nothing that a log would tell; a bug would get its traceback"
_ONE_LINE = "the answer is one line"
IRRELEVANT: dict[tuple[str, str, str], str] = {
    **{
        (verb, option, "stm32n6"): _NO_TIME
        for verb in ("validate", "bisect")
        for option in (
            *("epoch_controller", "art_profile", "ec_single_epoch", "board", "mcu_mhz", "npu_mhz"),
            *("flash", "psram", "mpool", "overrides", "machine_file"),
        )
    },
    **{
        (verb, option, "ethos-u"): _NO_TIME
        for verb in ("validate", "bisect")
        for option in (
            *("overrides", "system_config", "memory_mode", "optimise", "arena_cache_size"),
        )
    },
    ("validate", "overrides", "cloudai100"): _NO_TIME,
    ("bisect", "alternative_schedule", "stm32n6"): "one layer has one order",
    ("bisect", "generation", "stm32n6"): "no layer of it differs at any generation",
    ("bisect", "max_ca_pipe", "stm32n6"): "units in series add up the same numbers",
    **{
        ("lint", option, "stm32n6"): "no rule looks at how inputs and outputs lie in memory"
        for option in ("inputs_ch_position", "outputs_ch_position")
    },
    ("lint", "quiet", "ethos-u"): _ONE_LINE,
    ("compile", "quiet", "ethos-u"): _ONE_LINE,
    ("compile", "quiet", "cloudai100"): _ONE_LINE,
    **{
        (verb, "verbose", family): _NO_LOG
        for verb in (
            "demo",
            *("gate", "export", "compare", "profile", "compile", "validate", "serve"),
        )
        for family in ("ethos-u", "cloudai100")
    },
    ("lint", "verbose", "ethos-u"): _NO_LOG,
    ("estimate", "verbose", "cloudai100"): _NO_LOG,
    ("tune", "verbose", "cloudai100"): _NO_LOG,
    ("lint", "as_int8", "ethos-u"): "placeholder scales give its rules nothing to say",
    **{
        (verb, "verbose", "stm32n6"): _NO_LOG
        for verb in (
            *("inspect", "checklist", "disasm", "asm", "sweep report", "machines", "rules"),
            *("completion", "mcp", "doctor"),
        )
    },
    **{
        (verb, "verbose", "cloudai100"): _NO_LOG
        for verb in ("manycore compile", "manycore setups", "manycore tokens")
    },
    ("demo", "alternative_schedule", "stm32n6"): "the built-in network has the same order in both",
    ("tune", "seed", "*"): "all points of the small space are tried",
    ("tune", "evaluations", "cloudai100"): "the space has fewer points",
    ("tune", "lossy", "ethos-u"): "no edit that changes outputs is offered there",
    ("tune", "lossy", "cloudai100"): "no edit that changes outputs is offered there",
    ("serve", "no_browser", "*"): "no browser is opened where stdout is no terminal",
    ("run", "batch", "stm32n6"): "the emulated board takes the same time for every inference",
    ("sweep", "yes", "stm32n6"): "two runs are started without a question",
    ("asm", "quiet", "stm32n6"): _ONE_LINE,
    ("asm", "name", "stm32n6"): "the words of another family have no name in C",
    ("opstats", "ignore_uuid", "cloudai100"): "the buffers are those of the program",
    ("opstats", "merge_mq_traces", "cloudai100"): "the runner made one queue",
    ("manycore compile", "perf_warnings", "cloudai100"): "nothing slows the small program",
    ("manycore run", "verbose", "cloudai100"): _NO_LOG,
    **{
        ("mcp", option, "stm32n6"): "its stdout belongs to the protocol"
        for option in ("json", "force", "quiet")
    },
    **{
        ("fix", option, family): "rules of that family offer no fix that it names"
        for option in ("only", "drop_softmax", "lossy")
        for family in ("ethos-u", "cloudai100")
    },
    **{
        ("fix", option, "*"): "both networks get the same samples and give the same answers"
        for option in ("mean", "std", "pixel_max")
    },
    ("lint", "fail_on", "ethos-u"): "these networks give its rules nothing to say",
    ("quantize", "optimization", "stm32n6"): "the small network is compiled alike at every level",
    ("quantize", "alternative_schedule", "stm32n6"): "a chain of layers has one order",
    ("quantize", "loss_db", "*"): "every choice keeps all of the small network's decibels",
}
