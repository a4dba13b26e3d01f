"""The units' integer arithmetic, as vendor-compiled networks and board results showed it.

In: words of streams. Out: words. group runs units that are started together; convacc and units hold
one function per kind of unit.
"""
