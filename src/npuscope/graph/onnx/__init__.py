"""ONNX -> Graph: QDQ, QLinear* and static *Integer networks, opset 9 to 21.

file.py reads the protobuf, expand.py brings every quantized form to QDQ, binding.py decides which
ops compute on integers, layout.py keeps track of channel-last storage, convert_*.py turn the ops.
"""
