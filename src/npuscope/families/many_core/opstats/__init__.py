"""From a decoded stats buffer to the tables and the timeline that people read.

In and out: buffers and a layout in; tables and a TraceModel out.
Tables, op_table: what is printed; trace*: the timeline.
"""
