# %% [markdown]
# # A first look at a network
#
# How long it takes, where the time goes, and what to change first. Run it as a script, or open it
# as a notebook (editors and Jupytext read the `# %%` marks):
#
#     python examples/first_look.py model.tflite
#
# Without a model the built-in network is looked at.

# %%
import sys

import npuscope
from npuscope.demo_network import demo_graph

source = sys.argv[1] if len(sys.argv) > 1 else demo_graph()

# %% [markdown]
# ## Does it fit, and how fast is it?
#
# Every prediction has a range; `model_error` says how sure it is.

# %%
try:
    profile = npuscope.estimate(source)
except npuscope.NpuscopeError as error:  # what is wrong with the file, and what helps
    sys.exit(str(error))
low, high = profile.interval_ms
print(f"{profile.total_ms:.3f} ms (from {low:.3f} to {high or float('inf'):.3f} ms)")
print(f"known error: {profile.model_error}")
for name, spent in profile.time.by_work:
    print(f"  {name:<10} {spent:8.3f} ms  {spent / profile.total_ms:6.1%}")
print(f"  RAM on the chip {profile.memory.internal_ram_bytes / 1024:.0f} KiB")

# %% [markdown]
# ## The five longest epochs
#
# `profile.to_dataframe()` gives all of them as a table, with `pip install 'npuscope[notebook]'`.

# %%
for epoch in sorted(profile.epochs, key=lambda epoch: -epoch.ms)[:5]:
    where = {"HW": "NPU", "SW": "CPU", "HYBRID": "library call"}[epoch.kind.value]
    print(f"  epoch {epoch.first:>4} {where:<12} {epoch.ms:8.3f} ms  {', '.join(epoch.origin[:2])}")

# %% [markdown]
# ## Why, and what to change

# %%
found = npuscope.explain(source)
print(found.verdict)
for change in found.changes:
    gain = "unknown gain" if change.gain_ms is None else f"saves {change.gain_ms:.3f} ms"
    print(f"  {gain}: {change.fix.title} ({change.count} times, {change.rule})")
