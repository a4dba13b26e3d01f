"""What goes wrong between a PC and a board: one row per cause, by theme."""
