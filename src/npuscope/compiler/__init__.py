"""From a quantized Graph to a Program; pipeline is the list of steps.

In: a Graph and a Machine. Out: a placed Program with claims. passes: simplify the Graph; lower: ops
to stages; schedule: stages to epochs; emit: a Program; place: buffers to pools.
"""
