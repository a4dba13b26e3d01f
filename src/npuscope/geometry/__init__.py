"""How layers are cut for the units of the NPU, and what their streams cost: counted, no values.

Here: `divisors` (equal parts), `pieces` (kernels larger than a unit's), `tiling` (channels over
kernels, depth, units in series and passes), `streams` (words and cycles of a layer), `sums` (how
far they reach, and their shift).
In: shapes and a Machine. Lowering cuts by these; rules ask them what lowering will do.
"""
