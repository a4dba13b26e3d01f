# %% [markdown]
# # Fix a model, and check that it is still right
#
# Edits that help, measured; the NPU's arithmetic against the reference; and a limit for the build
# server.
#
#     python examples/fix_and_check.py model.tflite fixed.tflite

# %%
import sys

import npuscope

if len(sys.argv) != 3:
    sys.exit("usage: python examples/fix_and_check.py MODEL FIXED")
model, target = sys.argv[1:]

# %% [markdown]
# ## Edits that help
#
# Each is applied to a copy, compiled, timed, and its effect on the outputs is measured. The model
# itself is never touched.

# %%
try:
    fixed = npuscope.fix(model, target, drop_softmax=True, seeds=1)
except npuscope.NpuscopeError as error:  # what is wrong with the file, and what helps
    sys.exit(str(error))
print(f"{fixed.before.total_ms:.3f} ms to {fixed.after.total_ms:.3f} ms")
for step in fixed.applied:
    print(f"  applied: {step.candidate.fix.title} ({step.outcome.reason})")
    for note in step.notes:
        print(f"    the application: {note}")
for step in fixed.refused:
    print(f"  refused: {step.candidate.fix.title} ({step.outcome.reason})")

# %% [markdown]
# ## Is the result right?
#
# The same data through the reference kernels and through the NPU's arithmetic, layer by layer.

# %%
checked = npuscope.validate(target)
print(checked.told())
if not checked.passed:
    print(f"  look first at {checked.worst_op}; `npuscope bisect` finds the first op that differs")

# %% [markdown]
# ## Where the time went

# %%
compared = npuscope.compare(model, target)
print(compared.told())

# %% [markdown]
# ## A limit that keeps it so
#
# The same as `npuscope gate` on a build server, whose exit code is 1 when a check fails.

# %%
gate = npuscope.gate(target, most={"total_ms": fixed.after.total_ms * 1.05})
print("passed" if gate.passed else "failed", [check.name for check in gate.checks])
