"""The report as one HTML file that needs no network: data, styles and scripts inside.

In and out: a Profile, stats tables or a sweep in; one page out.
Page: the frame; data, opstats, sweep: what is shown.
"""
