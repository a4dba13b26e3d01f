"""One function a kind of file: the counts of the format, and every number in it.

In and out: a Sample in; a summary out.
Binary, documents, texts: by how the file is read.
"""
