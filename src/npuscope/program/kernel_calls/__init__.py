"""Software kernels as calls of our C library (firmware/kernels).

In: software calls of a Program. Out: C arguments. build chooses the kernel; layers, moves: by
theme; model: the records.
"""
