"""Verbs that only many-core machines have: the vendor's compiler, runner and opstats."""
