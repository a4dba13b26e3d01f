"""Pages for tests: the built-in network, one with hostile names, and one with 700 epochs."""

from __future__ import annotations

import numpy as np

from npuscope import building
from npuscope.advice.explain import explain
from npuscope.advice.explanation import Explanation
from npuscope.building import Build
from npuscope.demo_network import demo_graph
from npuscope.graph.model import DType, Graph, Op, Quant, Tensor
from npuscope.ops.layers import ConvAttrs
from npuscope.profiling.run import profile as run_profile
from npuscope.report.html.data import profile_page
from npuscope.structs import replace

# Runs in a page that takes a name for markup; each way sets the same mark.
ATTACKS = (
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'>",
    '"><svg onload="window.broken = 1">',
    "javascript:window.broken=1",
    "\u2028window.broken = 1\u2029//",
    "<!--<script>",
    "${window.broken = 1}`+(window.broken = 1)+`",
    "a\u202eb\x00c\x1b[2J",
)


def explained(graph: Graph) -> tuple[Build, Explanation]:
    made = building.build(graph, {})
    return made, explain(made, run_profile(made.program, made.machine, made.graph))


def page_of(made: Build, found: Explanation) -> str:
    return profile_page(found.profile, replace(found, build=made))


def hostile_graph() -> Graph:
    """The built-in network with an attack in every name that a file may hold."""
    graph = demo_graph()
    names = {name: f"{ATTACKS[n % len(ATTACKS)]}{n}" for n, name in enumerate(graph.tensors)}
    ops = [
        replace(
            op,
            name=f"{ATTACKS[n % len(ATTACKS)]}{op.name}",
            inputs=tuple(names[name] for name in op.inputs),
            outputs=tuple(names[name] for name in op.outputs),
            origin=(f"{op.kind}:{ATTACKS[n % len(ATTACKS)]}{op.name}",),
        )
        for n, op in enumerate(graph.ops)
    ]
    return Graph(
        ATTACKS[0],
        [replace(tensor, name=names[tensor.name]) for tensor in graph.tensors.values()],
        ops,
        tuple(names[name] for name in graph.inputs),
        tuple(names[name] for name in graph.outputs),
    )


def deep_graph(layers: int, name: str = "Conv:{}") -> Graph:
    """One small convolution after the other: an epoch each, of ops with these names."""
    random = np.random.default_rng(5)
    scale = Quant((0.05,), (0,))
    shape = (1, 8, 8, 16)
    data = random.integers(-9, 9, (16, 3, 3, 16)).astype(np.int8)
    weights = Tensor("weights", data.shape, DType.INT8, Quant((0.01,) * 16, (0,) * 16, 0), data)
    tensors = [weights, *(Tensor(f"x{n}", shape, DType.INT8, scale) for n in range(layers + 1))]
    attrs = ConvAttrs((1, 1), (1, 1, 1, 1))
    ops = [
        Op(
            "Conv2D",
            f"layer{n}",
            (f"x{n}", "weights", ""),
            (f"x{n + 1}",),
            attrs,
            (name.format(n, n // 10, n // 50),),
        )
        for n in range(layers)
    ]
    return Graph("deep", tensors, ops, ("x0",), (f"x{layers}",))
