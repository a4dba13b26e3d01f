"""Model files: the readers of TFLite and ONNX.

In: bytes of a .tflite or .onnx file. Out: a verified Graph (load.py). builder.py: what both share.
tflite/, onnx/: one reader each, with the converters that the rows of ops/ name, and one file graph:
a file to change and to write again. order.py: what both do when they write.
"""
