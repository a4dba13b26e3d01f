"""The hardware as data: units, memories, clocks, costs, compiler generations.

In: TOML, .mpool, .mdesc, neural_art.json, --set. Out: a frozen Machine. load reads TOML, schema
checks it, model holds the records, set_keys lists what can be set, npu_ops says what an STM32N6
does with each op.
"""
