"""The family of Arm Ethos-U machines: U55, U65 and U85.

commands.py: every command, as data. stream.py: words to commands and back. text.py: commands as
text. container.py: the files that Vela writes. registers.py: what a command stream starts.
weights.py, weight_*.py: compressed weights. execute.py, arithmetic/: what the NPU computes.
timing.py: how long it takes. vela.py: the compiler, as a child. family.py: all of it for verbs.
"""
