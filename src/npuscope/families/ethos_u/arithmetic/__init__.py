"""What kernels compute, one idea per module: scaling.py, activation.py, convolution.py, pooling.py,
elementwise.py, resize.py. Integers are int64 between the inputs and the output."""
