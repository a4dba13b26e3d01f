"""TFLite -> Graph.

In: bytes. file.py: the flatbuffer as plain records. reader.py: the walk over the operators.
tensors.py: tensors and constants. convert_*.py: operators to ops. Out: a Graph.
"""
