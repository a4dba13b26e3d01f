"""Which set-up a network runs best in: cores per copy, copies, batch, inferences in flight.

In and out: a Graph to its work per inference, a set-up to its time, a search to a ranked list.
"""
