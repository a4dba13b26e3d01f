"""Kernels of the reference executor: table.py lists them, one file a family of ops."""
