"""From a quantized Graph to a Program; pipeline is the list of steps.

In and out: a Graph and a Machine in; a placed Program with claims out.
Passes: the Graph made simpler; lower: ops to stages; schedule: stages to epochs; emit, place.
"""
