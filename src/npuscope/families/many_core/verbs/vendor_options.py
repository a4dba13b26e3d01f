"""Options of the vendor's compiler and runner that change nothing here, each with its reason.

Public command lines (notebooks, benchmark scripts, export libraries) are taken as they are: an
option is a row here, or has an effect of its own in the verb. A note names those in use."""

from __future__ import annotations

from npuscope.options.kinds import Option, OptionKind, VendorEffect, option


def idle(spelling: str, means: str, value: str = "true|false", short: str = "") -> Option:
    """Its value may be left out, as in -retained-state and -retained-state=true."""
    other = short or (f"-{spelling}" if not spelling.startswith("--") else "")
    return option(
        spelling.lstrip("-").replace("-", "_").lower(),
        OptionKind.TEXT,
        means,
        value=value,
        flags=(spelling, other) if other else (spelling,),
        const="true",
        python=False,
        effect=VendorEffect.NONE,
    )


_NOT_MODELLED = "accepted, no effect"
_QUANTIZED = "no effect: give a quantized model, `npuscope quantize` makes one"
_RUN = "no effect: `manycore run` runs what is compiled here"

# One option per row is easier to read than the formatter's layout.
# fmt: off
COMPILER = (
    # target and precision
    idle("-aic-hw", "not needed: there is one target, a simulated device"),
    idle("-aic-hw-version", _NOT_MODELLED, "V"),
    idle("-device-id", _RUN, "N"),
    idle("-convert-to-fp16", "not needed: float values have 16 bits on the device"),
    idle("-convert-to-fp32", "no effect: float values have 16 bits on the device"),
    idle("-execute-nodes-in-fp16", "not needed: float values have 16 bits on the device", "OPS"),
    idle("-node-precision-info", _NOT_MODELLED, "FILE"),
    idle("-mxfp6-matmul", "no effect here: `manycore tokens --mxfp6-matmul` times it"),
    # quantization
    idle("-convert-to-quantize", _QUANTIZED),
    idle("-load-profile", _QUANTIZED, "FILE"),
    idle("-dump-profile", _QUANTIZED, "FILE"),
    idle("-input-list-file", _QUANTIZED, "FILE"),
    idle("-use-random-input-data", _QUANTIZED, "KIND"),
    idle("-quantization-schema", _QUANTIZED, "S"),
    idle("-quantization-schema-activations", _QUANTIZED, "S"),
    idle("-quantization-schema-constants", _QUANTIZED, "S"),
    idle("-quantization-precision", _QUANTIZED, "TYPE"),
    idle("-quantization-precision-bias", _QUANTIZED, "TYPE"),
    idle("-quantization-calibration", _QUANTIZED, "KIND"),
    idle("-percentile-calibration-value", _QUANTIZED, "PERCENT"),
    idle("-num-histogram-bins", _QUANTIZED, "N"),
    idle("-enable-channelwise", _QUANTIZED),
    idle("-enable-rowwise", _QUANTIZED),
    # inputs and outputs
    idle("-retained-state", "not needed: inputs with an output NAME_RetainedState stay in DDR"),
    idle("-custom-IO-list-file", "no effect: inputs and outputs keep the types of the file",
        "FILE"),
    idle("-dump-custom-IO-config-template", _NOT_MODELLED, "FILE"),
    idle("-output-node-name", "no effect: all outputs of the file are computed", "NAME"),
    idle("-model-input", "no effect: the file has the shapes of its inputs", "NAME,TYPE,SHAPE"),
    idle("-combine-inputs", _NOT_MODELLED),
    idle("-combine-outputs", _NOT_MODELLED),
    idle("-aic-minimize-host-traffic", _NOT_MODELLED),
    idle("-allow-mxint8-mdp-io", _NOT_MODELLED),
    idle("-register-custom-op", "no effect: ops of QEfficient are known, others are refused",
        "FILE"),
    # how work is split
    idle("-vtcm-working-set-limit-ratio", _NOT_MODELLED, "SHARE"),
    idle("-multicast-weights", "not needed: cores share loads wherever they need the same weights"),
    idle("-ols", _NOT_MODELLED, "N"),
    idle("-mdts-mos", _NOT_MODELLED, "N"),
    idle("-sdp-cluster-sizes", _NOT_MODELLED, "N,N"),
    idle("-use-producer-dma", _NOT_MODELLED, "0|1"),
    idle("-allocator-dealloc-delay", _NOT_MODELLED, "N"),
    idle("-sub-functions", _NOT_MODELLED),
    # what else the vendor's tool does
    idle("-compile-only", "not needed: `manycore run` runs it"),
    idle("-aic-compile-only-test", "not needed: `manycore run` runs it"),
    idle("-aic-num-of-instances", f"{_RUN}, with -a", "N"),
    idle("-num-iter", f"{_RUN}, with -n", "N"),
    idle("-time", f"{_RUN}, with --time", "SECONDS"),
    idle("-write-output-dir", _RUN, "DIR"),
    idle("-write-output-start-iter", _RUN, "N"),
    idle("-write-output-num-samples", _RUN, "N"),
    idle("-time-passes", _NOT_MODELLED),
    idle("-compile-threads", _NOT_MODELLED, "N"),
    idle("-profiling-threads", _NOT_MODELLED, "N"),
)
RUNNER = (
    idle("--live-reporting", _NOT_MODELLED, short="-l"),
    idle("--live-reporting-period", _NOT_MODELLED, "MS", "-r"),
    idle("--stats", _NOT_MODELLED, short="-s"),
    idle("-c", _NOT_MODELLED),
    idle("--aic-threads-per-queue", _NOT_MODELLED, "N", "-T"),
    idle("--pre-post-processing", "not needed: files have the types of the network", "on|off",
        "-p"),
    idle("--aic-batch-max-memory", _NOT_MODELLED, "MB"),
    idle("--submit-timeout", _NOT_MODELLED, "MS"),
    idle("--submit-retry-count", _NOT_MODELLED, "N"),
    idle("--unbound-random", _NOT_MODELLED),
    idle("--dump-input-buffers", _NOT_MODELLED),
    idle("--auto-batch-input", _NOT_MODELLED),
    idle("--aic-lib-path", _NOT_MODELLED, "FILE"),
    idle("--aic-profiling-duration", _NOT_MODELLED, "MS"),
    idle("--aic-profiling-sampling-rate", _NOT_MODELLED, "RATE"),
    idle("--aic-profiling-reporting-rate", _NOT_MODELLED, "MS"),
)
# fmt: on
