"""TFLite -> Graph.

In: bytes. flat_table.py: tables of the flatbuffer. file.py: the file as plain records. reader.py:
the walk over the operators. tensors.py: tensors and constants. convert_*.py: operators to ops. Out:
a Graph.

file_graph.py, file_parts.py: the same file to change and to write again without loss. records.py:
all its tables, read and written. tables.py: the whole schema.

write_graph.py: a Graph of any source as a new file; write_layers.py and write_moves.py write what
the formats express in different ways.
"""
