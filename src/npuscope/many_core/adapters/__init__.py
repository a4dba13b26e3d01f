"""Profiles of other sources as the sheets that opstats reports print."""
