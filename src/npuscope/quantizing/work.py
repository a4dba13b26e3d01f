"""What a file format implements to be quantized: `onnx_work` and `litert`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from npuscope.edits.document import Document
from npuscope.quantizing.plan import ActivationRange, FloatLayer, RangePlan
from npuscope.quantizing.samples import Border, Sample

Values = Mapping[str, np.ndarray]
Progress = Callable[[str], None]
Weights = Callable[[str], tuple[np.ndarray, np.ndarray] | None]


class FloatFile(Protocol):
    """One float file, prepared; `notes` say what was repaired."""

    tool: str
    has_wide: bool  # it can make tensors of 16 bits beside others of 8
    layers: tuple[FloatLayer, ...]
    notes: tuple[str, ...]

    def float_bytes(self) -> bytes: ...

    def borders(self) -> tuple[Border, ...]: ...

    def ranges(
        self, method: str, samples: Sequence[Sample], equalised: bool, progress: Progress
    ) -> dict[str, ActivationRange]:
        """Of all float activations, inputs included."""

    def equalise(self, samples: Iterable[Sample]) -> bool:
        """Make the other form of the float network; False where there is none."""

    def document(self, equalised: bool) -> Document:
        """The float network, to read its layers from."""

    def means(self, samples: Iterable[Sample], equalised: bool) -> dict[str, np.ndarray]:
        """Of every channel of what layers read."""

    def make(self, plan: RangePlan) -> bytes:
        """A quantized file, still with floats at its border."""

    def plain(self, samples: Sequence[Sample]) -> bytes | None:
        """What the tool underneath makes by default."""

    def border_is_float(self, data: bytes) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        """Of every input and output of a quantized file."""

    def outputs(self, data: bytes | None, samples: Iterable[Sample]) -> Iterator[Values]:
        """Of a quantized file, or of the float network."""

    def inside(
        self, data: bytes, plan: RangePlan, samples: Iterable[Sample]
    ) -> Iterator[tuple[Values, Values]]:
        """Real values of all tensors that have steps, in float and quantized."""

    def weights(self, data: bytes, plan: RangePlan) -> Weights:
        """A constant as it was and as it is in a quantized file."""
