"""Graph to CoreProgram: split over cores, plan VTCM, transfers and waits.

In and out: a Graph and a CoreMachine in; a CoreProgram out.
Pipeline is the list of steps.
"""
