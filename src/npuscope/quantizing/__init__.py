"""A float network to the int8 form that the machine likes best.

`run.py` is the readable list of steps. What is tried lives in `choices`, what it costs in `trial`;
`float_onnx`, `qdq` and `equalise` know ONNX, `litert` knows TFLite, and `samples` the data.
"""
