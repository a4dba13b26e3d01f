"""What the device executes, and its files: each format has one reader and one writer.

In and out: Programs of our compiler or of the vendor's files in; the same files out.
Model, units: the values; verify: invariants; sources: any file to a Program.
"""
