"""Software kernels as calls of our C library (firmware/kernels).

In and out: software calls of a Program in; C arguments out.
Build chooses the kernel; layers, moves: by theme; model: the records.
"""
