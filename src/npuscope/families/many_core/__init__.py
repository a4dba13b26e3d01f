"""The second machine family: many cores with threads by engine, and their stats buffers.

In and out: a Graph to a CoreProgram, a run, stats buffers, and tables of them.
Compiler, sim, opstats, adapters: by stage; container, buffer: files.
"""
