"""network.c: a Program as C source in the interface of the vendor's runtime.

In and out: network.c to a Program (reader) and back (writer).
Layout: the words, once; parse_*: C; read_*, writer_*: by part of the file.
"""
