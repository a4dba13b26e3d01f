"""Neural-ART: the accelerator of the STM32N6, with its epochs, units and pools.

`family` is all that verbs know of it. Its compiler, simulator, formats and rules are the packages
`machine`, `program`, `compiler`, `sim`, `rulebook` and `advice`, which were there first.
"""
