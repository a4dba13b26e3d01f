"""An existing application folder: its networks, linker, sources and flash files against each other.

In and out: a folder in, a FolderCheck with findings out; `run.py` is the list of steps.
"""
