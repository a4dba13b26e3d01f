"""The units' integer arithmetic, as vendor-compiled networks and board results showed it.

In: words of streams. Out: words. convacc, units and pool hold one function per kind of unit, of
many frames at a time; whole runs units that are started together, or leaves them to group,
which runs them frame by frame.
"""
