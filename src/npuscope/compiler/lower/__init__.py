"""Ops as stages of the hardware, or as calls of software kernels.

In: ops of a Graph. Out: stages. graph: the table of lowerings; context: what all share; the other
modules: one theme each.
"""
