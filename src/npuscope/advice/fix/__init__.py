"""Fixes tried on a model file: each applied, compiled again, timed and measured.

Comes in: a file, a Choice, compile options (`run.fix`). Goes out: Fixed, with the steps and the
content of the fixed file. `candidates` says what is worth a try, `workbench` compiles and times,
`numeric` compares results, `judge` says what helps, `frontier` finds where the NPU's work ends.
The edits themselves are in `npuscope.edits`.
"""
