"""Sweeps: many models on many machines, one journalled row per run.

In and out: a sweep file (spec) to rows in a store (journal); drive is the list of steps.
Runs: what is run; one_run: one of them; pool, cluster: where.
"""
