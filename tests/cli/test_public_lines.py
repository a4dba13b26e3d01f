"""Command lines of public notebooks, READMEs and scripts for the vendor's tools, as they are there
but for paths and sizes: each compiles or runs, and no option passes in silence."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import onnx
import pytest

from many_core.nets import EncoderShape, encoder
from npuscope.cli.main import main

_HEAD = "/opt/qti-aic/exec/qaic-exec -m=model.onnx -aic-binary-dir=qpc "
_NEW = "qaic-compile -aic-hw -aic-hw-version=ai100 -m=model.onnx -aic-binary-dir=qpc "
_INT8 = "-quantization-schema=symmetric_with_uint8 -quantization-precision=Int8 "
COMPILE = [
    # tutorials and models of the SDK's repository
    _HEAD + "-v -aic-hw -convert-to-fp16 -mos=1 -ols=1 -aic-num-cores=2 -aic-perf-metrics "
    "-multicast-weights -stats-batchsize=8 -aic-hw-version=2.0 -compile-only "
    "-aic-profiling-type=stats -aic-profiling-type=trace -aic-profiling-type=latency",
    _HEAD + "-aic-hw -aic-hw-version=2.0 -network-specialization-config=sizes.json -retained-state "
    "-convert-to-fp16 -ols=1 -mos=14 -aic-num-cores=14 -custom-IO-list-file=custom_io.yaml "
    "-compile-only -mxfp6-matmul",
    _HEAD + "-aic-hw -aic-hw-version=2.0 -aic-perf-warnings -aic-perf-metrics -compile-only "
    "-convert-to-fp16 -mos=1 -ols=4 -stats-batchsize=1 -aic-num-cores=16 -aic-enable-depth-first "
    "-aic-depth-first-mem=32",
    _HEAD + "-aic-hw -aic-num-cores=12 -mos=2 -ols=1 -convert-to-fp16 -compile-only",
    _HEAD + "-aic-hw -aic-hw-version=ai100 -aic-num-cores=12 -compile-only -mos=1 -ols=4 "
    "-multicast-weights -aic-enable-depth-first -convert-to-quantize "
    "-quantization-schema-activations=symmetric_with_uint8 "
    "-quantization-schema-constants=symmetric_with_uint8 -quantization-precision=Int8 "
    "-use-random-input-data=gaussian -node-precision-info=fp16_nodes.yaml",
    # options of published tables
    _HEAD + "-multicast-weights -use-producer-dma=1",
    _HEAD + "-aic-enable-depth-first -aic-depth-first-mem=16",
    # export library for language models
    _NEW + "-network-specialization-config=sizes.json -convert-to-fp16 -retained-state "
    "-aic-num-cores=16 -custom-IO-list-file=custom_io.yaml -mxfp6-matmul -mos=1 "
    "-aic-enable-depth-first -allow-mxint8-mdp-io -mdp-load-partition-config=mdp_ts.json",
    _NEW + "-sub-functions -mdp-dump-partition-config=dump.json -node-precision-info=fp32.yaml",
    _NEW + "-convert-to-fp16 -mxfp6-matmul -aic-num-cores=16 -mos=1 -aic-enable-depth-first "
    "-mdp-load-partition-config=mdp_ts.json -stats-level=0 -mdts-mos=1",
    _NEW + "-retained-state -convert-to-fp16 -mxfp6-matmul -aic-num-cores=16 -mos=1 "
    "-aic-enable-depth-first -mdp-load-partition-config=mdp_pp2.json",
    _HEAD + "-v -aic-hw -convert-to-fp16 -aic-num-cores=14 -aic-num-of-instances=1 -num-iter=100 "
    "-stats-level=70 -aic-pmu-recipe=KernelUtil -ddr-stats -time-passes -mxfp6-matmul "
    "-aic-enable-depth-first -retained-state=true -aic-perf-metrics -compile-only",
    # benchmark suites and their calibration
    _HEAD + "-aic-hw -execute-nodes-in-fp16=Add,Div,Erf,Softmax " + _INT8 + "-vvv -compile-only "
    "-quantization-precision-bias=Int32 -multicast-weights -combine-inputs=false "
    "-combine-outputs=false -allocator-dealloc-delay=2 -size-split-granularity=1536 "
    "-vtcm-working-set-limit-ratio=1 -load-profile=profile.yaml",
    _HEAD + "-aic-hw " + _INT8 + "-output-node-name=ArgMax -vvv -compile-only -use-producer-dma=1 "
    "-sdp-cluster-sizes=2,2 -mos=1,2 -ols=4 -aic-num-cores=4",
    _HEAD + "-aic-hw -compile-only -enable-channelwise -node-precision-info=info.yaml "
    "-quantization-schema-constants=symmetric_with_uint8 "
    "-quantization-schema-activations=asymmetric -quantization-calibration=None",
    _HEAD + "-input-list-file=list.txt -num-histogram-bins=512 -dump-profile=profile.yaml "
    "-profiling-threads=4 -quantization-calibration=Percentile -percentile-calibration-value=99.9",
    _HEAD + "-aic-hw -time-passes -time=5 -device-id=0 -ddr-stats -stats-level=100 -enable-rowwise "
    "-compile-threads=128 -dump-custom-IO-config-template=io.yaml",
    _HEAD + "-input-list-file=./list.txt -model-input=1,float,[1,3,416,416] -aic-hw "
    "-write-output-start-iter=1 -write-output-num-samples=1 -write-output-dir=./out",
    _HEAD + "-aic-hw -aic-minimize-host-traffic -aic-compile-only-test -convert-to-fp32",
]
_RUN = "/opt/qti-aic/exec/qaic-runner -t qpc "
RUN = [
    "/opt/qti-aic/exec/qaic-runner --test-data ./qpc -d 15 -S 10 -a 7 --aic-profiling-type latency "
    "--aic-profiling-out-dir ./stats --aic-profiling-start-iter 100 "
    "--aic-profiling-num-samples 99999 --time 0.001",
    _RUN + "-S 1 -n 10 -d 0 --write-output-dir=./out --aic-profiling-out-dir=./stats "
    "--aic-profiling-type=trace --aic-profiling-type=stats --aic-profiling-type latency "
    "--aic-profiling-start-iter 5 --aic-profiling-num-samples 1",
    _RUN + "-i x.raw --write-output-start-iter 0 --write-output-num-samples 1 -d 0 -n 1",
    _RUN + "-a 1 -n 100 --aic-batch-input-file-list inputs_list.txt --write-output-start-iter 0 "
    "--write-output-num-samples 10 --write-output-dir out -d 0",
    _RUN + "-n 10 -a 1 -l -D 0",
    _RUN + "-D 0 --aic-batch-json-input io.json -n 5 -S 1 -T 1 -c --aic-profiling-type "
    "raw_device_stats --aic-profiling-start-iter 2 --aic-profiling-num-samples 3 "
    "--aic-profiling-out-dir stats --write-output-start-iter 2 --write-output-num-samples 3 "
    "--write-output-dir out",
    _RUN + "--aic-batch-json-input io.json -n 1 --dev-list 0",
    "sudo " + _RUN + "-a 3 -n 50 -d 0 -v",
    _RUN + "-a 8 -S 1 -d 0 --aic-profiling-format latency --aic-profiling-out-dir ./stats "
    "--aic-profiling-start-iter 100 --aic-profiling-num-samples 99999 --time 0.001",
    "/opt/qti-aic/exec/qaic-api-test -n 10 -t qpc --aic-profiling-out-dir stats -v trace "
    "--aic-profiling-type trace --aic-profiling-num-samples 5 --aic-profiling-start-iter 2 "
    "--aic-profiling-type stats",
    "sudo /opt/qti-aic/exec/qaic-api-test --time 0.001 -a 7 --test-data=qpc -T 8 -i x.raw -d 2",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(encoder(EncoderShape(layers=1)))
    Path("sizes.json").write_text('{"specializations": [{"batch_size": "1"}]}')
    devices = [{"deviceId": number, "numCores": 16} for number in range(2)]
    partition = {"name": "Partition0", "devices": devices}
    Path("mdp_ts.json").write_text(json.dumps({"connections": [], "partitions": [partition]}))
    nodes = [node.name or node.output[0] for node in onnx.load("model.onnx").graph.node]
    stages = [
        {"name": f"Partition{number}", "nodeList": part, "devices": [device]}
        for number, (part, device) in enumerate(zip((nodes[:9], nodes[9:]), devices, strict=True))
    ]
    Path("mdp_pp2.json").write_text(json.dumps({"connections": [], "partitions": stages}))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(shlex.split(line)) == 0, line
    return capsys.readouterr().out


@pytest.mark.parametrize("line", COMPILE)
def test_it_compiles(here: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    if "sizes.json" in line:
        _open_batch()
    out = told(capsys, line)
    assert Path("qpc/programqpc.bin").is_file()
    for word in shlex.split(line):
        option = word.partition("=")[0]
        if option in _SILENT or not option.startswith("-"):
            continue
        assert option in out, f"{option} passes in silence"


def _open_batch() -> None:
    """The model with the batch left open, as exports for several sizes have it."""
    model = onnx.load("model.onnx")
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.shape.dim[0].dim_param = "batch_size"
    onnx.save(model, "model.onnx")


# Options that do what they say.
_SILENT = {
    *("-m", "-aic-binary-dir", "-v", "-vvv", "-aic-hw", "-mos", "-aic-num-cores", "-ddr-stats"),
    *("-aic-perf-metrics", "-aic-perf-warnings", "-stats-batchsize", "-stats-level"),
    *("-network-specialization-config", "-mdp-load-partition-config", "-size-split-granularity"),
    *("-aic-pmu-recipe", "-mdp-dump-partition-config"),
}


@pytest.mark.parametrize("line", RUN)
def test_it_runs(here: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    told(capsys, _HEAD + "-aic-num-cores=2 -stats-level=70")
    inputs = _inputs()
    files = " -i ".join(inputs.values())
    Path("inputs_list.txt").write_text(",".join(inputs.values()) + "\n")
    rows = [{"path": path, "map-to": n, "io-direction": "in"} for n, path in inputs.items()]
    Path("io.json").write_text(json.dumps({"IO-files": [rows]}))
    for folder in ("stats", "out"):
        Path(folder).mkdir()
    assert " ---- Stats ----\nInferenceCnt " in told(capsys, line.replace("x.raw", files))


def _inputs() -> dict[str, str]:
    """A file of zeros for each input."""
    import numpy as np

    from npuscope.profiling.runtimes import onnxruntime_session

    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    files = {}
    for entry in onnxruntime_session("model.onnx").get_inputs():
        np.zeros(entry.shape, types[entry.type]).tofile(f"{entry.name}.raw")
        files[entry.name] = f"{entry.name}.raw"
    return files
