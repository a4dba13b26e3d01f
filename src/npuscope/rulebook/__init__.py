"""Rules: what keeps an op off the NPU, and what is risky in a model file.

Here: one file per theme; a rule is one function with everything the user reads; `fixes` (leaf
table), `finding` (values), `queries` and `counts` (questions to a graph), `registry` (who asks).
A new rule is one function in its theme and one row in tests/rulebook/test_<theme>.py.
In: Graph, Machine, an ONNX file. Out: Refused (for lowering) and Finding (for lint, explain).
"""

from npuscope.rulebook.registry import Refusal, refusals

__all__ = ["Refusal", "refusals"]
