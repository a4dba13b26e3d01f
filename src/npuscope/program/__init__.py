"""What the device executes, and its files: each format has one reader and one writer.

In: Programs of our compiler, or the vendor's files. Out: the same files. model, units: the values;
verify: invariants; sources: any file to a Program.
"""
