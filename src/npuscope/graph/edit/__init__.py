"""Model files as documents that can be edited and written again.

What an edit does not touch stays as it was: names, metadata, options of other ops.
"""

from npuscope.graph.edit.document import Document, NotFitting, open_document, whole_bytes

__all__ = ["Document", "NotFitting", "open_document", "whole_bytes"]
