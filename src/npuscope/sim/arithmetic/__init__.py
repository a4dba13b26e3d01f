"""The units' integer arithmetic, as vendor-compiled networks and board results showed it.

In and out: words of streams in; words out.
Group runs units that are started together; one module a kind of unit.
"""
