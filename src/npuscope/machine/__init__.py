"""The hardware as data: units, memories, clocks, costs, compiler generations.

In and out: TOML, .mpool, .mdesc, neural_art.json, --set in; a frozen Machine out.
Load reads, schema checks, model holds, keys lists what can be set.
"""
