"""Graph -> CoreProgram: split over cores, plan VTCM, transfers and waits. See pipeline.py."""
