"""ONNX -> Graph: QDQ, QLinear* and static *Integer networks, opset 9 to 21.

In: bytes. file.py, constants.py: the protobuf as records. expand, fold, rewrite, binding: what
happens before the walk over the nodes. reader.py: the steps in order. task.py: what a converter
sees. layout.py: channel-first to channel-last. convert_*.py: nodes to ops. Out: a Graph.

file_graph.py: the same file to change, stored_file.py: and to write again without loss. bodies.py:
what it holds besides its nodes. first_state.py: what of it still holds after a change. entries.py:
inputs and outputs. No other package opens an ONNX protobuf: listed.py reads one for lints,
float_ready.py prepares one for a quantizer, new_file.py draws one for viewers.
"""
