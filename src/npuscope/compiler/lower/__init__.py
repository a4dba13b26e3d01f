"""Ops as stages of the hardware, or as calls of software kernels.

In and out: ops of a Graph in; stages out.
Graph: the table of lowerings; one module a theme; context: what all share.
"""
