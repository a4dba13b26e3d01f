"""The units' integer arithmetic, one unit a file, as facts/unit_semantics.md found it."""
