"""Profiles of other sources as the sheets that opstats reports print.

In and out: files of other profilers in; Sheets out.
Registry finds the adapter that knows a file; one module per source.
"""
