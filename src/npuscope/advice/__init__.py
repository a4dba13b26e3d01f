"""Advice: what a run costs, why, and what to change.

Here: rules on a run, one file per theme (software, layers, moves, memory, control); `advise` asks
them, `explain` adds the refusals and lint; `fix`, `compare`, `gate` and `sweep` build on it.
In: Program, Profile, Machine, the Graph if known. Out: Finding, Explanation, Comparison.
"""
