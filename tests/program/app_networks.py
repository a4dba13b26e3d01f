"""Networks with the outputs that the vendor's applications decode: shapes only, no ops."""

from __future__ import annotations

from npuscope.graph.model import DType, Graph, Quant, Tensor

Shapes = tuple[tuple[int, ...], ...]

IMAGE = (1, 192, 192, 3)
FOUND: dict[str, Shapes] = {
    "classification": ((1, 10),),
    "yolov8": ((1, 6, 756),),
    "yolov5": ((1, 2268, 7),),
    "yolod": ((1, 756, 7),),
    "yolox": ((1, 6, 6, 6), (1, 24, 24, 6), (1, 12, 12, 6)),
    "ssd": ((1, 300, 3), (1, 300, 4), (1, 300, 4)),
    "blazeface": ((1, 512, 16), (1, 512, 1), (1, 384, 16), (1, 384, 1)),
    "palm": ((1, 2016, 1), (1, 2016, 18)),
    "movenet": ((1, 48, 48, 13),),
    "pose-yolov8": ((1, 56, 756),),
    "segmentation": ((1, 192, 192, 21),),
    "instance-segmentation": ((1, 116, 756), (1, 48, 48, 32)),
    "yolov2": ((1, 6, 6, 30),),
    "": ((1, 7, 7, 33),),
}


def network(shapes: Shapes, dtype: DType = DType.FLOAT32) -> Graph:
    quant = None if dtype is DType.FLOAT32 else Quant((0.5,), (3,))
    outputs = [Tensor(f"out{i}", shape, dtype, quant) for i, shape in enumerate(shapes)]
    names = tuple(tensor.name for tensor in outputs)
    image = Tensor("image", IMAGE, DType.UINT8, Quant((1.0,), (0,)))
    return Graph("net", [image, *outputs], [], ("image",), names)
