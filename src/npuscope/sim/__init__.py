"""What the silicon does with a Program: results, cycles, counters.

In: a Program and a Machine. Out: outputs, times and counters. run and arithmetic: values; epochs,
group_work and program_work: cycles; counters and debug_unit: what is counted.
"""
