"""What each kind of op means: one row per op, grouped by theme.

In: ops of a Graph. Out: shapes, checks, costs, results, and how TFLite and ONNX store them.
row.py: the record. traits.py: what can be true of an op. layers, elementwise, functions, reduce,
norms, moves, indexing, images, recurrent: the rows.
table.py: all of them. verify.py: the Graph's invariants. run.py: the reference executor.
"""
