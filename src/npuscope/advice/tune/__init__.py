"""The best set-up of a network for a budget: what may be chosen (`space`), files with edits
(`variants`), which points are compiled and timed (`search`), and the front that is left (`run`).

Points are runs of the sweep engine: on all cores or a cluster, kept in its store, continued after
an interruption.
"""
