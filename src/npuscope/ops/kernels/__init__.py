"""Kernels of the reference executor, bit-exact with LiteRT's reference kernels or onnxruntime.

In: arrays of an op's inputs. Out: those of its outputs. Rows name the kernels; table.py loads and
chooses them. step.py defines what a kernel is; requantize, windows and real_math are shared by
several kernels.
"""
