"""A Cortex-M in an emulator, with the NPU behind its registers; firmware runs as on a board.

In and out: images and requests in; what the firmware answers out.
Board: from outside; computer, cpu, npu: inside, in a process of its own (child).
"""
