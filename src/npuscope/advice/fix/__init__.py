"""Fixes: edits of the model file, each applied, compiled again, timed and measured."""
