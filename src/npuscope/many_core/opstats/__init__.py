"""From a decoded stats buffer to the tables and the timeline that people read."""
