"""The whole application around networks: what shares the memory, and what runs when in a frame.

In and out: an application file in, a Plan out; an application's folder in, its faults out.
"""
