"""Families of machines: what a verb may ask of any of them, and the families themselves.

In: a model, a compiled program or a run, and options. Out: Profiles, explanations, findings, which
all verbs share. `interface` is what a family has to be; `registry` finds the family of a machine or
of a file, also one of another package; `neural_art` and `many_core` are those that come along.
"""
