"""Software kernels as calls of our C library (firmware/kernels)."""
