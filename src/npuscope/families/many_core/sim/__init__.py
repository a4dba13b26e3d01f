"""Simulator of the many-core machine: cores and threads in discrete events, and their host.

In and out: a CoreProgram in; records of stats buffers out.
Run: the list of steps; events: the loop; plan, costs: what is run and what it takes.
"""
