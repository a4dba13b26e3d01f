"""Simulator of the many-core machine: cores and threads in discrete events, and their host."""
