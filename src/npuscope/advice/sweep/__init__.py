"""Sweeps: many models on many machines, one journalled row a run."""
