"""Right on the PC, wrong on the board: evidence from a board against the simulation of causes."""
