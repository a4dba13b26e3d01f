"""Blobs of the epoch controller: bytes, text, and unit configurations.

lower: unit configurations to blobs; lift: back. register_map: the NPU's registers as data;
assembly: text; binary: containers.
"""
