"""What verbs show of many-core machines, runs and stats buffers, as text, JSON and pages."""
