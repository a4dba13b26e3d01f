"""Two runs by source op, and why they differ.

In and out: sides (what may be compared) to a Comparison (model); run is the list of steps.
Matching pairs epochs, half and core_causes find the reasons, measured deals with noise.
"""
