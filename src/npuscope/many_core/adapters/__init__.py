"""Profiles of other sources as the sheets that opstats reports print.

In and out: files of other profilers in; Sheets out.
Registry tells which adapter knows a file; one module a source.
"""
