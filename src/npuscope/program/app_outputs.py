"""What the outputs of a network look like to the vendor's applications: which of them fits."""

from __future__ import annotations

from msgspec import Struct

from npuscope.graph.model import DType, Graph, Quant
from npuscope.ops.moves import TransposeAttrs
from npuscope.ops.table import having
from npuscope.ops.traits import Trait

Shape = tuple[int, ...]

BOX, KEYPOINT = 4, 3  # values of a box; of a keypoint: x, y, confidence
FACE_VALUES, PALM_VALUES = 16, 18  # a box and six points of a face, or seven of a hand
STRIDES = (8, 16, 32)  # grids of the YOLO family
_MOST_KEYPOINTS = 17
_FEWEST_BOXES = 20
_LETTERS = {DType.FLOAT32: "F", DType.UINT8: "U"}


class Outputs(Struct, frozen=True):
    """The image, shapes of the outputs with channels last, and the letter of their elements."""

    model: str
    image: tuple[int, int]
    is_bytes: bool
    is_planar: bool
    shapes: tuple[Shape, ...]
    letter: str
    quants: tuple[Quant | None, ...]

    @property
    def first(self) -> Shape:
        return self.shapes[0]

    @property
    def cells(self) -> int:
        """Boxes that a network of the YOLO family has, one for each cell of its grids."""
        height, width = self.image
        return sum((height // stride) * (width // stride) for stride in STRIDES)

    @property
    def maps(self) -> tuple[Shape, ...]:
        return tuple(shape for shape in self.shapes if len(shape) == 4 and max(shape[1:3]) > 1)

    @property
    def rows(self) -> tuple[Shape, ...]:
        return tuple(shape for shape in self.shapes if len(shape) == 3)


def border_shape(graph: Graph, name: str) -> Shape:
    """The shape of an input or output with channels last, whatever their order in memory."""
    shape = graph.tensor(name).shape
    return (shape[0], *shape[2:], shape[1]) if is_channel_first(graph, name) else shape


def is_channel_first(graph: Graph, name: str) -> bool:
    """Whether all that comes behind an input, or before an output, has its channels last."""
    producers, consumers = graph.producers(), graph.consumers()
    inward = name not in producers
    op = next(iter(consumers.get(name, ())), None) if inward else producers[name]
    while op is not None and op.kind in having(Trait.RESCALING):
        beyond = consumers.get(op.outputs[0], ()) if inward else (producers.get(op.inputs[0]),)
        op = next(iter(beyond), None)
    turned = (0, 2, 3, 1) if inward else (0, 3, 1, 2)
    attrs = op.attrs if op is not None else None
    return isinstance(attrs, TransposeAttrs) and attrs.permutation == turned


def find_application(graph: Graph) -> str:
    """By the outputs alone; "" where no application fits."""
    outputs = outputs_of(graph)
    maps, rows = outputs.maps, outputs.rows
    if len(maps) == 3 and len({shape[3] for shape in maps}) == 1:
        return "yolox"
    if len(maps) == 1 == len(outputs.shapes):
        shape = maps[0]
        if shape[1:3] == outputs.image:
            return "segmentation"
        if shape[3] <= _MOST_KEYPOINTS and shape[1] * 4 == outputs.image[0]:
            return "movenet"
        return "yolov2" if shape[3] % 5 == 0 else ""
    if len(maps) == 1 == len(rows):
        has_masks = min(rows[0][1:]) > BOX + maps[0][3]
        return "instance-segmentation" if has_masks else ""
    if len(rows) > 1:
        values = {shape[-1] for shape in rows}
        names = {FACE_VALUES: "blazeface", PALM_VALUES: "palm", BOX: "ssd"}
        return next((name for count, name in names.items() if count in values), "")
    if len(rows) == 1 == len(outputs.shapes):
        return _of_rows(rows[0], outputs.cells)
    is_vector = len(outputs.shapes) == 1 and sum(size > 1 for size in outputs.first) == 1
    return "classification" if is_vector else ""


def _of_rows(shape: Shape, cells: int) -> str:
    count, values = max(shape[1:]), min(shape[1:])
    if count < _FEWEST_BOXES or values <= BOX:
        return ""
    if values == BOX + 1 + KEYPOINT * _MOST_KEYPOINTS:
        return "pose-yolov8"
    # YOLOv8 has a row for each value. The others have one for each box, with an objectness:
    # YOLOv5 three boxes in a cell, YOLO-d one.
    if shape[1] < shape[2]:
        return "yolov8"
    return "yolod" if count == cells else "yolov5"


def outputs_of(graph: Graph) -> Outputs:
    tensors = [graph.tensor(name) for name in graph.outputs]
    image = next((name for name in graph.inputs if len(graph.tensor(name).shape) == 4), "")
    height, width = border_shape(graph, image)[1:3] if image else (0, 0)
    return Outputs(
        model=graph.name,
        image=(height, width),
        is_bytes=not image or graph.tensor(image).dtype is DType.UINT8,
        is_planar=bool(image) and is_channel_first(graph, image),
        shapes=tuple(border_shape(graph, name) for name in graph.outputs),
        letter=_LETTERS.get(tensors[0].dtype, "I") if tensors else "F",
        quants=tuple(tensor.quant for tensor in tensors),
    )
