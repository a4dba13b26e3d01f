"""The work on one ONNX file: prepared once, calibrated, quantized and run as often as asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from npuscope.edits.onnx.document import OnnxDocument
from npuscope.errors import ModelError
from npuscope.files.onnx.entries import with_outputs
from npuscope.files.onnx.file_graph import OnnxFileGraph
from npuscope.installed import needs
from npuscope.profiling.runtimes import onnxruntime_session
from npuscope.quantizing import qdq
from npuscope.quantizing.bias import channel_means, with_shifts
from npuscope.quantizing.equalise import equalise, own_constants
from npuscope.quantizing.float_onnx import FloatNetwork, prepare
from npuscope.quantizing.histogram import Histograms
from npuscope.quantizing.others import first_line
from npuscope.quantizing.plan import ActivationRange, FloatLayer, RangePlan
from npuscope.quantizing.samples import Border, Sample
from npuscope.quantizing.work import Progress, Weights

Values = dict[str, np.ndarray]
_BEHIND = "_DequantizeLinear_Output"  # what onnxruntime's quantizer adds to a tensor's name
_QUANTIZED = "_quantized"


class OnnxWork:
    """`networks` are the float network as prepared and, once asked for, with equalised layers."""

    tool = "onnxruntime"
    has_wide = True  # tensors of 16 bits beside others of 8

    def __init__(
        self, path: Path, shapes: Mapping[str, Sequence[int]] | None, folder: Path
    ) -> None:
        needs("onnxruntime", "onnxruntime", "quantize")
        self.folder = folder
        self.networks: dict[bool, FloatNetwork] = {False: prepare(path, shapes, folder)}
        self.layers: tuple[FloatLayer, ...] = self.networks[False].layers()
        self.notes = self.networks[False].notes
        self._seen: dict[bool, Histograms] = {}

    def float_bytes(self) -> bytes:
        return self.networks[False].data

    def borders(self) -> tuple[Border, ...]:
        graph = self.networks[False].graph
        return tuple(
            Border(name, graph.shape(name) or (), np.dtype(graph.type(name)))
            for name in graph.network_inputs
        )

    def ranges(
        self, method: str, samples: Sequence[Sample], equalised: bool, progress: Progress
    ) -> dict[str, ActivationRange]:
        """One pass over the samples serves all methods."""
        if equalised not in self._seen:
            histograms = Histograms()
            names = [name for layer in self.layers for name in layer.outputs if name]
            outputs = self.run(self.networks[equalised].data, samples, names)
            for number, (sample, values) in enumerate(zip(samples, outputs, strict=True), 1):
                histograms.add({**sample, **values})
                progress(f"calibrating: sample {number} of {len(samples)}")
            self._seen[equalised] = histograms
        return self._seen[equalised].ranges(method)

    def equalise(self, samples: Iterable[Sample]) -> bool:
        """False where no pair of layers allows it."""
        convs = [layer.outputs[0] for layer in self.layers if layer.kind == "Conv"]
        peaks: dict[str, np.ndarray] = {}
        for values in self.run(self.networks[False].data, samples, convs):
            for name, value in values.items():
                sample_peaks = np.abs(value).max(axis=(0, *range(2, value.ndim))).astype(np.float64)
                peaks[name] = np.maximum(peaks.get(name, 0.0), sample_peaks)
        document = self.document(False)
        if not equalise(document, peaks):
            return False
        self.networks[True] = FloatNetwork(document, self.notes)
        return True

    def document(self, equalised: bool) -> OnnxDocument:
        document = OnnxDocument.parse(self.networks[equalised].data, Path())
        own_constants(document)
        return document

    def means(self, samples: Iterable[Sample], equalised: bool) -> dict[str, np.ndarray]:
        names = {layer.inputs[0] for layer in self.layers if layer.weights and layer.inputs}
        sums: dict[str, np.ndarray] = {}
        all_samples = list(samples)
        inputs = [border.name for border in self.borders()]
        inside = sorted(names.difference(inputs))
        rows = self.run(self.networks[equalised].data, all_samples, inside)
        for sample, row in zip(all_samples, rows, strict=True):
            for name, values in {**sample, **row}.items():
                if name in names and values.ndim > 1:
                    sums[name] = sums.get(name, 0.0) + channel_means(values, 1)
        return {name: total / len(all_samples) for name, total in sums.items()}

    def make(self, plan: RangePlan) -> bytes:
        """The QDQ file with a float border."""
        network = self.networks[plan.equalised]
        if plan.shifts:
            document = self.document(plan.equalised)
            with_shifts(document, plan.shifts)
            network = FloatNetwork(document, self.notes)
        return qdq.quantized(network, plan)

    def plain(self, samples: Sequence[Sample]) -> bytes | None:
        """What the tool underneath makes by default."""
        try:
            return qdq.plain(self.networks[False], samples, self.folder)
        except Exception:  # then there is no mark to compare with
            return None

    def border_is_float(self, data: bytes) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        graph = OnnxFileGraph.parse(data, Path())
        sides = (graph.network_inputs, graph.network_outputs)
        inputs, outputs = (tuple(graph.type(name) == "float32" for name in row) for row in sides)
        return inputs, outputs

    # running

    def outputs(self, data: bytes | None, samples: Iterable[Sample]) -> Iterator[Values]:
        """Of a quantized file, or of the float network."""
        return self.run(self.float_bytes() if data is None else data, samples, [])

    def inside(
        self, data: bytes, plan: RangePlan, samples: Iterable[Sample]
    ) -> Iterator[tuple[Values, Values]]:
        """All activations that have steps, in float and quantized."""
        graph = OnnxFileGraph.parse(data, Path())
        computed = {name for op in graph.nodes for name in graph.outputs(op)}
        names = [n for layer in self.layers for n in layer.outputs if n in plan.ranges]
        now = {n: n + _BEHIND if n + _BEHIND in computed else n for n in names}
        names = [n for n in names if now[n] in computed]
        all_samples = list(samples)
        reals = self.run(self.networks[plan.equalised].data, all_samples, names)
        steps = self.run(data, all_samples, [now[n] for n in names])
        for sample, real, values in zip(all_samples, reals, steps, strict=True):
            yield {**sample, **real}, {n: values[now[n]] for n in names}

    def weights(self, data: bytes, plan: RangePlan) -> Weights:
        """A constant as it was and as it is in a quantized file."""
        graph, network = OnnxFileGraph.parse(data, Path()), self.networks[plan.equalised]

        def pair(name: str) -> tuple[np.ndarray, np.ndarray] | None:
            steps, scale = (graph.values(f"{name}{end}") for end in (_QUANTIZED, "_scale"))
            was = network.constant(name)
            if steps is None or scale is None or was is None:
                return None
            scales = np.asarray(scale, np.float64)
            axes = [axis for axis, size in enumerate(was.shape) if size == scales.size]
            if scales.size > 1:
                shape = [1] * was.ndim
                shape[axes[0]] = -1
                scales = scales.reshape(shape)
            return was, steps * scales

        return pair

    def run(self, data: bytes, samples: Iterable[Sample], names: Sequence[str]) -> Iterator[Values]:
        """Outputs, or the tensors that are named."""
        try:
            session = onnxruntime_session(with_outputs(data, names))
        except Exception as error:
            raise ModelError(f"onnxruntime cannot open it: {first_line(error)}") from error
        outputs = [*dict.fromkeys(names)] or [output.name for output in session.get_outputs()]
        for sample in samples:
            try:
                values = session.run(outputs, dict(sample))
            except Exception as error:
                raise ModelError(f"onnxruntime cannot run it: {first_line(error)}") from error
            yield dict(zip(outputs, map(np.asarray, values), strict=True))
