"""Blobs of the epoch controller: bytes, text, and unit configurations.

In and out: unit configurations to blobs (lower) and back (lift).
Register_map: the NPU's registers as data; assembly: text; binary: containers.
"""
