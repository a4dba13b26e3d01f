"""The work on one TFLite file: ai-edge-quantizer makes the file, LiteRT runs it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npuscope.edits import NotFitting, open_document
from npuscope.edits.records import QuantSteps
from npuscope.edits.steps import float_steps
from npuscope.edits.tflite.document import TfliteDocument
from npuscope.errors import ModelError
from npuscope.files.load import load_model
from npuscope.files.tflite.file import parse
from npuscope.files.tflite.file_parts import FileOp
from npuscope.files.tflite.sparse import dense
from npuscope.graph.model import WEIGHTS_ALONE, Quant
from npuscope.installed import needs
from npuscope.profiling.runtimes import LitertKernels, litert_interpreter
from npuscope.quantizing.bias import channel_means, with_shifts
from npuscope.quantizing.equalise import equalise
from npuscope.quantizing.histogram import Histograms
from npuscope.quantizing.others import FLOAT_ONE, WEIGHTS_ONE, first_line, quiet
from npuscope.quantizing.plan import ActivationRange, FloatLayer, RangePlan
from npuscope.quantizing.samples import Border, Sample
from npuscope.quantizing.work import Progress, Weights

Values = dict[str, np.ndarray]
_FLOAT = "FLOAT32"
_BORDER = ("INPUT", "OUTPUT")
_INTEGERS = "_int8"  # what edits add to the name of a float tensor
# Ops that the quantizer leaves in float, though versions of LiteRT have integer kernels for them.
_LEFT_OUT = ("PRelu", "LeakyRelu", "Elu", "Abs", "Neg")
_KINDS = {"DepthwiseConv": "Conv", "FullyConnected": "Gemm", "TransposeConv": "ConvTranspose"}


class LitertWork:
    """`data` is the float file with new operator codes and constants of 32 bits."""

    tool = "ai-edge-quantizer"
    has_wide = False  # tensors of 16 bits beside others of 8

    def __init__(self, path: Path, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        needs("ai-edge-quantizer", "ai_edge_quantizer", "quantize")
        document = open_document(path)
        assert isinstance(document, TfliteDocument)
        if len(document.subgraphs) > 1:
            raise ModelError(
                "the model has several subgraphs: what is inside cannot be calibrated",
                hint="export one static graph without control flow or state",
            )
        if quantized := [tensor for tensor in document.tensors if tensor.quant is not None]:
            # Of two files that are called quantized only one can go on as it is.
            if all(tensor.data is not None for tensor in quantized):
                raise ModelError(WEIGHTS_ALONE, hint=WEIGHTS_ONE)
            raise ModelError("the model is quantized already", hint=FLOAT_ONE)
        notes = []
        _use_dense(document)
        if _use_float32(document):
            notes.append("16-bit floats became 32-bit ones")
        if document.close_batch():
            notes.append("the dynamic batch size was set to 1")
        notes += _use_sizes(document, path, shapes)
        document.use_new_codes()
        # The quantizer walks through the list without asking whether there is one.
        document.model.fields.setdefault("SignatureDefs", [])
        self.networks: dict[bool, bytes] = {False: document.to_bytes()}
        self.notes = tuple(notes)
        self.layers = tuple(_layer(document, op) for op in document.nodes if op.outputs)
        self.inputs = tuple(document.network_inputs)
        self.output_names = tuple(tensor.name for tensor in document.network_outputs)
        self._made = {name for layer in self.layers for name in layer.outputs}
        self._seen: dict[bool, Histograms] = {}
        self._more: tuple[str, ...] | None = (
            None  # kinds that LiteRT runs in integers beyond the quantizer's
        )

    def float_bytes(self) -> bytes:
        return self.networks[False]

    def borders(self) -> tuple[Border, ...]:
        return tuple(Border(t.name, t.shape, np.dtype(t.type.lower())) for t in self.inputs)

    def ranges(
        self, method: str, samples: Sequence[Sample], equalised: bool, progress: Progress
    ) -> dict[str, ActivationRange]:
        if equalised not in self._seen:
            self._seen[equalised] = histograms = Histograms()
            activations = self._made | {tensor.name for tensor in self.inputs}
            rows = self._run(self.networks[equalised], samples, True)
            for number, values in enumerate(rows, 1):
                histograms.add({n: v for n, v in values.items() if n in activations})
                progress(f"calibrating: sample {number} of {len(samples)}")
        return self._seen[equalised].ranges(method)

    def equalise(self, samples: Iterable[Sample]) -> bool:
        """False where no pair of layers allows it."""
        convs = {layer.outputs[0] for layer in self.layers if layer.kind == "Conv"}
        peaks: dict[str, np.ndarray] = {}
        for values in self._run(self.float_bytes(), samples, True):
            for name in convs & values.keys():
                largest = np.abs(values[name]).max(axis=(0, 1, 2)).astype(np.float64)
                peaks[name] = np.maximum(peaks.get(name, 0.0), largest)
        document = self.document(False)
        if not equalise(document, peaks):
            return False
        self.networks[True] = document.to_bytes()
        return True

    def document(self, equalised: bool) -> TfliteDocument:
        return TfliteDocument.parse(self.networks[equalised])

    def means(self, samples: Iterable[Sample], equalised: bool) -> dict[str, np.ndarray]:
        names = {layer.inputs[0] for layer in self.layers if layer.weights and layer.inputs}
        sums: dict[str, np.ndarray] = {}
        count = 0
        for row in self._run(self.networks[equalised], samples, True):
            count += 1
            for name in names & row.keys():
                sums[name] = sums.get(name, 0.0) + channel_means(row[name], -1)
        return {name: total / count for name, total in sums.items()}

    def make(self, plan: RangePlan) -> bytes:
        file = self._quantized(plan)
        if plan.narrow:
            return self._with_integers(file, plan, ())
        if self._more is None:
            self._more = tuple(kind for kind in _LEFT_OUT if self._opens_with(file, plan, kind))
        return self._with_integers(file, plan, self._more)

    def _with_integers(self, data: bytes, plan: RangePlan, kinds: Sequence[str]) -> bytes:
        """The file with ops of these kinds in integers too, under the names of the float file."""
        document = open_document(Path("made.tflite"), data)
        assert isinstance(document, TfliteDocument)
        for op in [op for op in document.nodes if document.kind(op) in kinds]:
            _make_integer(document, op, plan)
        # The quantizer gives an output's name to the integers in front of it.
        for name, output in zip(self.output_names, document.network_outputs, strict=True):
            for other in document.tensors:
                if other.name == name and other is not output:
                    other.name = f"{name}{_INTEGERS}"
            output.name = name
        return document.to_bytes()

    def _opens_with(self, data: bytes, plan: RangePlan, kind: str) -> bool:
        """LiteRT has the integer kernel: versions of it differ in that."""
        try:
            self._opened(self._with_integers(data, plan, (kind,)), False)
        except ModelError:
            return False
        return True

    def _quantized(self, plan: RangePlan) -> bytes:
        from ai_edge_quantizer import algorithm_manager, quantizer, recipe

        document = self.document(plan.equalised)
        with_shifts(document, plan.shifts)
        shapes = {tensor.name: (1,) * len(tensor.shape) for tensor in document.tensors}
        statistics = {
            name: {
                "min": np.full(shapes[name], ends.low, np.float32),
                "max": np.full(shapes[name], ends.high, np.float32),
            }
            for name, ends in plan.ranges.items()
            if name in shapes
        }
        try:
            with quiet(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tool = quantizer.Quantizer(bytearray(document.to_bytes()), recipe.static_wi8_ai8())
                for scope, kind in ((".*", _BORDER[0]), (".*", _BORDER[1]), *_divisions(document)):
                    tool.update_quantization_recipe(
                        scope, kind, algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE
                    )
                result = tool.quantize(
                    statistics, enable_progress_bar=False, enable_progress_report=False
                ).quantized_model
        except Exception as error:
            raise ModelError(
                f"ai-edge-quantizer cannot quantize it: {first_line(error)}"
            ) from error
        return bytes(result)

    def plain(self, samples: Sequence[Sample]) -> bytes | None:
        return self._quantized(
            RangePlan("minmax", self.ranges("minmax", samples, False, lambda t: None))
        )

    def border_is_float(self, data: bytes) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        document = TfliteDocument.parse(data)
        sides = (document.network_inputs, document.network_outputs)
        inputs, outputs = (tuple(t.type == _FLOAT for t in side) for side in sides)
        return inputs, outputs

    # running

    def outputs(self, data: bytes | None, samples: Iterable[Sample]) -> Iterator[Values]:
        return self._run(self.float_bytes() if data is None else data, samples, False)

    def inside(
        self, data: bytes, plan: RangePlan, samples: Iterable[Sample]
    ) -> Iterator[tuple[Values, Values]]:
        all_samples = list(samples)
        rows = zip(
            self._run(self.networks[plan.equalised], all_samples, True),
            self._run(data, all_samples, True),
            strict=True,
        )
        for real, integers in rows:
            results = {n: integers.get(f"{n}{_INTEGERS}", integers.get(n)) for n in self._made}
            yield real, {n: v for n, v in results.items() if v is not None}

    def weights(self, data: bytes, plan: RangePlan) -> Weights:
        was = {t.name: t for t in self.document(plan.equalised).tensors if t.is_constant}
        now = {t.name: t for t in TfliteDocument.parse(data).tensors if t.is_constant}

        def pair(name: str) -> tuple[np.ndarray, np.ndarray] | None:
            old, new = was.get(name), now.get(name)
            if old is None or new is None or old.data is None or new.data is None:
                return None
            if new.quant is None or new.data.shape != old.data.shape:
                return None
            shape = [1] * new.data.ndim
            if new.quant.axis is not None:
                shape[new.quant.axis] = -1
            scales = np.array(new.quant.scales).reshape(shape)
            zeros = np.array(new.quant.zero_points).reshape(shape)
            return old.data, (new.data.astype(np.float64) - zeros) * scales

        return pair

    def _run(self, data: bytes, samples: Iterable[Sample], every: bool) -> Iterator[Values]:
        """Results as real values under the names of the float file, or all tensors."""
        interpreter = self._opened(data, every)
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
        for sample in samples:
            try:
                for tensor, detail in zip(self.inputs, inputs, strict=True):
                    interpreter.set_tensor(detail["index"], sample[tensor.name])
                interpreter.invoke()
            except (ValueError, RuntimeError) as error:
                raise ModelError(f"LiteRT cannot run the model: {first_line(error)}") from error
            if every:
                yield _all_values(interpreter)
            else:
                results = (interpreter.get_tensor(detail["index"]) for detail in outputs)
                yield dict(zip(self.output_names, results, strict=True))

    def _opened(self, data: bytes, every: bool) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kernels in (LitertKernels.REFERENCE, LitertKernels.DEFAULT):
                try:
                    return litert_interpreter(data, kernels, keep_all=every)
                except (ValueError, RuntimeError) as error:
                    reason = first_line(error)
        raise ModelError(f"LiteRT cannot open the model: {reason}")


def _divisions(document: TfliteDocument) -> Iterator[tuple[str, str]]:
    """Divisions by what the network computes: LiteRT ends where a small divisor becomes 0."""
    for op in document.nodes:
        if document.kind(op) == "Div" and op.inputs[1] is not None and op.inputs[1].data is None:
            yield re.escape(op.outputs[0].name), "DIV"


def _use_sizes(
    document: TfliteDocument, path: Path, shapes: Mapping[str, Sequence[int]] | None
) -> Iterator[str]:
    """Inputs whose sizes the file leaves open get those that the network is read with."""
    if not any(tensor.has_open_sizes for tensor in document.network_inputs):
        return
    graph = load_model(path, shapes)
    for tensor in document.tensors:
        if tensor.name in graph.tensors and tensor.data is None:
            document.fix_sizes(tensor, graph.tensor(tensor.name).shape)
    for tensor in document.network_inputs:
        yield f"input '{tensor.name}': the sizes were set to {' x '.join(map(str, tensor.shape))}"


def _use_dense(document: TfliteDocument) -> None:
    """Sparse constants, which a DENSIFY fills with zeros, are written with their zeros."""
    sources = dict(zip(document.tensors, parse(document.to_bytes()).tensors, strict=False))
    for op in [op for op in document.nodes if op.word == "DENSIFY"]:
        source = sources[op.inputs[0]] if op.inputs[0] is not None else None
        if source is not None and source.sparsity is not None and source.data is not None:
            values = source.data.view(np.dtype(source.type.lower()))
            op.outputs[0].data = dense(source.sparsity, values, source.shape)
            document.remove(op)


def _use_float32(document: TfliteDocument) -> bool:
    """Constants of 16 bits, which a DEQUANTIZE makes 32 of, are written as such."""
    is_changed = False
    for op in [op for op in document.nodes if op.word == "DEQUANTIZE"]:
        source = op.inputs[0]
        if source is not None and source.data is not None and source.type == "FLOAT16":
            op.outputs[0].data = source.data.astype(np.float32)
            document.remove(op)
            is_changed = True
    return is_changed


def _layer(document: TfliteDocument, op: FileOp) -> FloatLayer:
    kind = document.kind(op)
    tensors = [tensor for tensor in op.inputs if tensor is not None]
    computed = tuple(tensor.name for tensor in tensors if not tensor.is_constant)
    second = op.input(1)
    weights = second.name if second is not None and second.is_constant else ""
    names = tuple(tensor.name for tensor in op.outputs)
    return FloatLayer(document.title(op), _KINDS.get(kind, kind), computed, names, weights)


def _make_integer(document: TfliteDocument, op: FileOp, plan: RangePlan) -> None:
    """One op between a DEQUANTIZE and a QUANTIZE; it stays where its operand is float."""
    result = op.outputs[0]
    range = plan.ranges.get(result.name)
    if result.type != _FLOAT or range is None:
        return
    try:
        for tensor in op.inputs:
            if tensor is not None and not tensor.is_constant:
                float_steps(document, tensor)
    except NotFitting:
        return
    for place, tensor in enumerate(op.inputs):
        if tensor is not None and tensor.is_constant:
            document.quantize_constant(op, place)
    steps = QuantSteps(Quant((range.scale,), (range.zero_point,)))
    document.quantize_results([op], {result: steps})


def _all_values(interpreter: Any) -> Values:
    results: Values = {}
    for detail in interpreter.get_tensor_details():
        try:
            values = interpreter.get_tensor(detail["index"])
        except ValueError:  # a tensor that nobody computed
            continue
        scales, zeros = (detail["quantization_parameters"][k] for k in ("scales", "zero_points"))
        if values.dtype != np.float32 and len(scales) == 1:
            values = (values.astype(np.float64) - zeros[0]) * scales[0]
        results[detail["name"]] = values
    return results
