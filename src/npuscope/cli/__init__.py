"""The command line: the same for all verbs, by their records.

In and out: words in; text or JSON, and an exit code out.
`main` finds the verb and reports errors, `parser` makes its arguments, `drive` runs it and prints
the result, `output` has what is written to.
"""
