"""What the silicon does with a Program: results, cycles, counters.

In and out: a Program and a Machine in; outputs, times and counters out.
Run and arithmetic: values; timing, group_work: cycles; counters, debug_unit: what is counted.
"""
