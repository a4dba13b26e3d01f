"""The second machine family: many cores with threads by engine, and their stats buffers."""
