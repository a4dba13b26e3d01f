"""Kernels of the reference executor, bit-exact with LiteRT's reference kernels or onnxruntime.

In: arrays of an op's inputs. Out: those of its outputs. Rows name the kernels; table.py loads and
chooses them. step.py says what a kernel is; requantize, windows and real_math are what they share.
"""
