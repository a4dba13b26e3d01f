"""<model>_Q.json: the format of every tensor and the source layer of every node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct, field

from npuscope.errors import FileError
from npuscope.machine.foreign_json import read_record
from npuscope.plain_data import step
from npuscope.program.c_info.records import Count, Environment, Extra, OriginalTensor
from npuscope.records import encode

_PREFIX = "0x"


class TensorFormat(Struct, frozen=True):
    """Class ("integer", "float32"), type ("S8", "FLOAT32"); `params` are scales and offsets."""

    class_: str
    type: str
    params: tuple[tuple[float, ...] | None, ...] | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def scales(self) -> tuple[float, ...]:
        return self._part(0)

    @property
    def offsets(self) -> tuple[float, ...]:
        return self._part(1)

    def _part(self, place: int) -> tuple[float, ...]:
        params = self.params or ()
        return (params[place] if place < len(params) else None) or ()


class QuantTensor(Struct, frozen=True):
    """Channel order and batch are stated for the network's inputs and outputs."""

    format: TensorFormat
    data_channel_position: str | None = None
    data_channel_batch: Count | None = None
    user_allocated: bool | None = None
    extra: Extra = field(default_factory=dict)


class QuantNode(Struct, frozen=True):
    """The layers of the model that a node stands for."""

    names: tuple[str, ...]
    extra: Extra = field(default_factory=dict)


class OriginalModel(Struct, frozen=True):
    original_inputs: tuple[OriginalTensor, ...] | None = None
    original_outputs: tuple[OriginalTensor, ...] | None = None
    extra: Extra = field(default_factory=dict)


class QuantJson(Struct, frozen=True):
    tensors: dict[str, QuantTensor]
    nodes: dict[str, QuantNode]
    version: str | None = None
    environment: Environment | None = None
    model_info: OriginalModel | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def model_file(self) -> str:
        return self._model()[0]

    @property
    def model_md5(self) -> str:
        """Of the model that the front end read."""
        return self._model()[1].removeprefix(_PREFIX)

    def _model(self) -> tuple[str, str]:
        tools = (self.environment.tools if self.environment else None) or ()
        entry = tools[0].input_model if tools else None
        files = (entry.model_files if entry else None) or ()
        return (files[0].name, files[0].signature or "") if files else ("", "")


def read_quant_json(path: str | Path) -> QuantJson:
    """The file; a tensor with as many scales as offsets, or none."""
    quant = read_record(path, QuantJson)
    for name, tensor in quant.tensors.items():
        scales, offsets = tensor.format.scales, tensor.format.offsets
        if len(scales) != len(offsets):
            counts = f"{len(scales)} scales and {len(offsets)} offsets"
            raise FileError(f"$.tensors{step(name)}.format.params: has {counts}", where=str(path))
    return quant


def quant_json_json(quant: QuantJson) -> dict[str, Any]:
    """The file's JSON value; equal to what was read."""
    result: dict[str, Any] = encode(quant)
    return result
