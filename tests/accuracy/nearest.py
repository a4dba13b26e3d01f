"""A classifier that is right by construction: the nearest of six pictures, in float and in int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from models import TfliteWriter

SIZE, CLASSES = 8, 6
SCALE, ZERO = 1 / 255, -128  # inputs from 0 to 1


def centres() -> np.ndarray:
    """Pictures of 0 to 255 that differ in colour, brightness and direction."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1)
    flat = np.ones_like(rows)
    shapes = [rows, rows, columns, columns, 0.25 * flat, 0.75 * flat]
    red, blue = (230, 120, 40), (40, 120, 230)
    colours = np.array([red, blue, red, blue, red, red])
    planes = [shape[..., None] * colour for shape, colour in zip(shapes, colours, strict=True)]
    return np.stack(planes)


def pictures(count: int, noise: float = 25.0) -> tuple[np.ndarray, np.ndarray]:
    """uint8 pictures and their classes."""
    rng = np.random.default_rng(9)
    labels = np.arange(count) % CLASSES
    values = centres()[labels] + rng.normal(0, noise, (count, SIZE, SIZE, 3))
    return np.clip(values, 0, 255).astype(np.uint8), labels


def layers(signed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias whose largest product is that of the nearest centre."""
    points = centres().reshape(CLASSES, -1) / 255
    points = points * 2 - 1 if signed else points
    return 2 * points, -(points**2).sum(1)


def float_model(signed: bool = False) -> bytes:
    weights, bias = layers(signed)
    net = TfliteWriter()
    x = net.tensor("image", (1, SIZE, SIZE, 3), "float32")
    shape = net.constant("shape", np.array([1, -1], np.int32))
    flat = net.tensor("flat", (1, SIZE * SIZE * 3), "float32")
    w = net.constant("weights", weights.astype(np.float32))
    b = net.constant("bias", bias.astype(np.float32))
    y = net.tensor("scores", (1, CLASSES), "float32")
    net.op("RESHAPE", [x, shape], [flat])
    net.op("FULLY_CONNECTED", [flat, w, b], [y])
    return net.finish([x], [y])


def int8_model(signed: bool = False) -> bytes:
    weights, bias = layers(signed)
    scale, zero = (2 / 255, 0) if signed else (SCALE, ZERO)
    step = float(np.abs(weights).max() / 127)
    net = TfliteWriter()
    x = net.tensor("image", (1, SIZE, SIZE, 3), scale=scale, zero_point=zero)
    shape = net.constant("shape", np.array([1, -1], np.int32))
    flat = net.tensor("flat", (1, SIZE * SIZE * 3), scale=scale, zero_point=zero)
    w = net.constant("weights", np.rint(weights / step).astype(np.int8), scale=step)
    b = net.constant("bias", np.rint(bias / (step * scale)).astype(np.int32), scale=step * scale)
    y = net.tensor("scores", (1, CLASSES), scale=1.5, zero_point=0)
    net.op("RESHAPE", [x, shape], [flat])
    net.op("FULLY_CONNECTED", [flat, w, b], [y])
    return net.finish([x], [y])


def folder_of_pictures(folder: Path, count: int = 24) -> Path:
    """Folders of classes, whose names sort as the classes."""
    images, labels = pictures(count)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / f"kind{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}.png")
    return folder
