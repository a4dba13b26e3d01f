"""Model files: the readers of TFLite and ONNX, and the file graph.

In: bytes of a .tflite or .onnx file. Out: a verified Graph (load.py). builder.py: what both share.
tflite/, onnx/: one reader each, with the converters that the rows of ops/ name, and one codec of
file_graph.py: a file to change and to write again. order.py: what both do when they write.
"""
