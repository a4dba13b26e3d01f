"""A Cortex-M in an emulator, with the NPU behind its registers; firmware runs as on a board."""
