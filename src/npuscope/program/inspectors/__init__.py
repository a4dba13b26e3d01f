"""One function a kind of file: the counts of the format, and every number in it."""
