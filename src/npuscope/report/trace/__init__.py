"""Timelines as files: Perfetto's protobuf and Chrome's JSON.

In and out: a TraceModel in; bytes out.
Perfetto and chrome, each with its writer of many records at once.
"""
