"""Exports of stock transformers with random weights, as a user of torch would make them.

    python benchmarks/make_transformers.py FOLDER [--sizes small,base] [--only bert,vit]

Needs torch, transformers, onnx and onnxscript, which npuscope itself does not: use an environment
of its own. BERT, ViT, GPT-2 and MobileViT are each written by both exporters, TorchScript's
and dynamo's, with fixed sizes and (`-symbols`) with symbols for batch and sequence. Nothing is
changed afterwards. Prints one line per file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers

_SEED = 7
_OPSETS = {False: 17, True: 18}  # by exporter: the newest that TorchScript's writes, dynamo's own


class Example(NamedTuple):
    """A network, its inputs, and which of their axes get a symbol."""

    network: Any
    inputs: dict[str, torch.Tensor]
    symbols: dict[str, dict[int, str]]


class Plain(torch.nn.Module):
    """The network as a function of tensors: exporters take no dataclasses."""

    def __init__(self, network: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.network = network
        self.names = names

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        given = dict(zip(self.names, values, strict=True))
        result: torch.Tensor = self.network(**given)[0]
        return result


def _tokens(network: Any, length: int) -> Example:
    symbols = {0: "batch", 1: "sequence"}
    inputs = {"input_ids": torch.randint(0, 90, (1, length)), "attention_mask": None}
    inputs["attention_mask"] = torch.ones(1, length, dtype=torch.int64)
    return Example(network, inputs, dict.fromkeys(inputs, symbols))


def _image(network: Any, side: int) -> Example:
    inputs = {"pixel_values": torch.randn(1, 3, side, side)}
    return Example(network, inputs, {"pixel_values": {0: "batch"}})


def bert(small: bool) -> Example:
    config = transformers.BertConfig()
    if small:
        config = transformers.BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=32,
        )  # fmt: skip
    return _tokens(transformers.BertModel(config), 16 if small else 128)


def gpt2(small: bool) -> Example:
    config = transformers.GPT2Config(use_cache=False)
    if small:
        config = transformers.GPT2Config(
            vocab_size=100, n_embd=32, n_layer=2, n_head=2, n_positions=32, use_cache=False
        )
    return _tokens(transformers.GPT2LMHeadModel(config), 16 if small else 128)


def vit(small: bool) -> Example:
    config = transformers.ViTConfig()
    if small:
        config = transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            image_size=32, patch_size=8,
        )  # fmt: skip
    return _image(transformers.ViTForImageClassification(config), config.image_size)


def mobilevit(small: bool) -> Example:
    config = transformers.MobileViTConfig()
    if small:
        config = transformers.MobileViTConfig(
            image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64]
        )
    return _image(transformers.MobileViTForImageClassification(config), config.image_size)


NETWORKS = {"bert": bert, "gpt2": gpt2, "vit": vit, "mobilevit": mobilevit}


def export(example: Example, path: Path, dynamo: bool, symbols: bool) -> None:
    names = tuple(example.inputs)
    plain = Plain(example.network, names).eval()
    how: dict[str, Any] = {"dynamo": dynamo, "opset_version": _OPSETS[dynamo]}
    if dynamo:
        how["external_data"] = False
    if symbols and dynamo:
        dims = {s: torch.export.Dim(s) for axes in example.symbols.values() for s in axes.values()}
        wanted = [{a: dims[s] for a, s in example.symbols[name].items()} for name in names]
        how["dynamic_shapes"] = (tuple(wanted),)
    elif symbols:
        how["dynamic_axes"] = example.symbols
    torch.onnx.export(
        plain, tuple(example.inputs.values()), str(path),
        input_names=list(names), output_names=["output"], **how,
    )  # fmt: skip


def _wanted(args: argparse.Namespace) -> Iterator[tuple[str, str, bool, bool]]:
    for size in args.sizes.split(","):
        for name in args.only.split(","):
            for dynamo in (False, True):
                for symbols in (False, True):
                    yield name, size, dynamo, symbols


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", default="small,base")
    parser.add_argument("--only", default=",".join(NETWORKS))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, size, dynamo, symbols in _wanted(args):
        torch.manual_seed(_SEED)
        ending = f"{'dynamo' if dynamo else 'torchscript'}{'-symbols' if symbols else ''}"
        path = args.folder / f"{name}-{size}-{ending}.onnx"
        try:
            export(NETWORKS[name](size == "small"), path, dynamo, symbols)
        except Exception as error:  # an exporter's own limits are of every kind
            print(f"{path.name}: the exporter stopped: {type(error).__name__}: {error}"[:200])
            continue
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
