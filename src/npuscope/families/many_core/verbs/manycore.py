"""`npuscope manycore ...`: the word before the verbs of many-core machines."""

from __future__ import annotations

from npuscope.options.kinds import Verb

VERB = Verb("compile for a many-core accelerator, and run it", (), ())
