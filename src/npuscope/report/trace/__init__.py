"""Timelines as files: Perfetto's protobuf and Chrome's JSON."""
