"""Two streams of the same layer: what makes one of them slower."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuscope
from ethos_u.networks import CONFIGURATIONS, SHAPE_IN, Convolution, vela_file
from ethos_u.streams import U55_128
from npuscope.advice.compare.model import CauseKind
from npuscope.families.ethos_u.container import read_vela
from npuscope.families.ethos_u.network import Network

pytest.importorskip("ai_edge_litert", reason="ai_edge_litert is not installed")

_DATABASE = """<debug><table name="cmdstream"><![CDATA[
"id"
1
]]></table><table name="queue"><![CDATA[
"offset","cmdstream_id","optimised_id"
{place},1,2
]]></table><table name="optimised"><![CDATA[
"id","source_id","operator"
2,1,"Conv2D"
]]></table><table name="source"><![CDATA[
"id","operator","ext_key"
1,"Conv2D",7
]]></table></debug>"""


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda one: one.machine)
def test_weight_buffering_is_named(configuration, tmp_path: Path) -> None:
    layer = Convolution(configuration)
    paths = (
        vela_file(layer, tmp_path),
        vela_file(layer, tmp_path, layer.buffered(), "b_vela.tflite"),
    )
    image = np.random.default_rng(4).integers(-128, 128, (1, *SHAPE_IN)).astype(np.int8)
    outputs = [
        Network(read_vela(path.read_bytes())).run({"image": image})["real"] for path in paths
    ]
    assert np.array_equal(*outputs)
    comparison = npuscope.compare(*paths)
    row = comparison.changed[0]
    cause = next(cause for cause in row.causes if cause.kind is CauseKind.WEIGHTS)
    assert cause.text.startswith("weight buffering: read as stored, ")
    assert " -> in SRAM first, waits " in cause.text
    assert sum(cause.ms for cause in row.causes) == pytest.approx(row.delta_ms)
    assert comparison.explained_share == 1


def test_the_clock_is_a_cause_of_its_own(tmp_path: Path) -> None:
    path = vela_file(Convolution(U55_128), tmp_path)
    comparison = npuscope.compare(path, b_options={"overrides": {"clock_mhz": 250.0}})
    (row,) = [row for row in comparison.changed if row.operators == ("CONV",)]
    assert [cause.kind for cause in row.causes] == [CauseKind.CLOCK]
    assert row.b_ms == pytest.approx(2 * row.a_ms)


def test_names_come_from_the_database_beside_the_file(tmp_path: Path) -> None:
    path = vela_file(Convolution(U55_128), tmp_path)
    (kernel,) = npuscope.estimate(path).payload.parts[0]
    (tmp_path / "one_debug.xml").write_text(_DATABASE.format(place=kernel.kernel.place))
    assert npuscope.estimate(path).epochs[0].origin == ("Conv2D:#7",)
