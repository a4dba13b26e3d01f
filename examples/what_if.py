# %% [markdown]
# # What if the machine were another?
#
# Clocks, compiler generations and memories: what each would do to a network, before anybody has a
# board.
#
#     python examples/what_if.py model.tflite
#
# Without a model the built-in network is used.

# %%
import sys

import npuscope
from npuscope.demo_network import demo_graph

source = sys.argv[1] if len(sys.argv) > 1 else demo_graph()
try:
    now = npuscope.estimate(source)
except npuscope.NpuscopeError as error:  # what is wrong with the file, and what helps
    sys.exit(str(error))
print(f"as it is: {now.total_ms:.3f} ms")

# %% [markdown]
# ## Other clocks
#
# A timing key times the program again; nothing is compiled.

# %%
for npu_mhz in (400, 600, 800, 1000):
    slower = npuscope.estimate(source, npu_mhz=npu_mhz)
    print(f"  NPU at {npu_mhz:>4} MHz: {slower.total_ms:8.3f} ms")

# %% [markdown]
# ## Other compiler generations
#
# Each maps the network in its own way; `compare` says why they differ.

# %%
for generation in ("2.2", "3.0", "4.0"):
    other = npuscope.estimate(source, generation=generation)
    print(f"  generation {generation}: {other.total_ms:8.3f} ms, {len(other.epochs)} epochs")
found = npuscope.compare(source, b_options={"generation": "2.2"})
for kind, spent, rows in found.by_cause[:3]:
    print(f"  4.0 to 2.2: {spent:+.3f} ms by {kind.value} ({rows} rows)")

# %% [markdown]
# ## Which key matters most
#
# Every timing key a tenth better, one at a time.

# %%
for row in npuscope.sensitivity(source)[:5]:
    print(f"  {row.key:<34} {row.value:g} to {row.better:g}: saves {row.saved_ms:.3f} ms")
