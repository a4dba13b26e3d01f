"""NPU arithmetic against the reference executor: layer by layer and end to end, by generation.

A layer is given the reference's own inputs; its result is compared element by element. Epochs
that hold two convolutions are fed at the first one only, so they may differ by more.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from msgspec.structs import asdict

import npuscope
from npuscope.profiling.validate import Validation

_HERE = Path(__file__).resolve().parents[1]
_MODELS = _HERE.parent / "shared" / "data" / "models"
_NETWORKS = (
    "vww_96_int8",
    "kws_ref_model",
    "ad01_int8",
    "pretrainedResnet_quant",
    "mobilenet_v1_0.25_96_tfs_int8",
    "mobilenet_v2_0.35_128_fft_int8",
    "mobilenet_v2_1.0_224_fft_int8",
)
_EXACT = 0.98


def main() -> None:
    arguments = parse()
    rows = []
    print(f"{'network':<34}{'generation':>11}{'layers exact':>14}{'below 98 %':>12}", end="")
    print(f"{'max LSB':>9}{'out <=1 LSB':>13}{'out max':>9}{'cosine':>10}{'saturated':>11}")
    for path in models(arguments):
        for generation in arguments.generations:
            found = npuscope.validate(path, generation=generation, seeds=arguments.seeds)
            print_row(path, generation, found)
            rows.append({"model": path.name, "generation": generation, **asdict(found)})
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1, default=str), encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=_MODELS, help="folder of .tflite files")
    parser.add_argument("--extra", type=Path, action="append", default=[], help="one more model")
    parser.add_argument("--generations", nargs="+", default=["2.2", "4.0", "open"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def models(arguments: argparse.Namespace) -> list[Path]:
    return [*(arguments.models / f"{name}.tflite" for name in _NETWORKS), *arguments.extra]


def print_row(path: Path, generation: str, found: Validation) -> None:
    layers = [layer for layer in found.layers if "Conv" in layer.ops]
    low = [layer for layer in layers if layer.exact_share < _EXACT]
    out = found.outputs[0]
    print(
        f"{path.stem[:33]:<34}{generation:>11}{found.layers_exact_share:>14.3%}"
        f"{len(low):>7} of {len(layers):<3}{max(layer.max_lsb for layer in layers):>8g}"
        f"{out.within_1_lsb_share:>13.1%}{out.max_lsb:>9g}{out.cosine:>10.5f}"
        f"{found.saturated_share:>11.3%}"
    )
    for layer in sorted(low, key=lambda layer: layer.exact_share)[:4]:
        names = "+".join(layer.ops)
        print(
            f"    {layer.epoch} {names}: {layer.exact_share:.2%} equal, "
            f"{layer.within_1_lsb_share:.2%} within 1 LSB, max {layer.max_lsb:g}"
        )


if __name__ == "__main__":
    main()
