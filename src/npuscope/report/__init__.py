"""Every noun as text and JSON; pages and timelines.

In and out: nouns in; text, JSON, CSV, HTML, traces out.
One module per noun; html: the offline page; trace: Perfetto and Chrome.
"""
