"""Devices that run a network and count: simulated, emulated, remote, recorded.

In and out: a request in; outputs, counters and times out.
Device: the interface; runtime: epoch blocks with callbacks; server, listeners: a virtual board.
"""
