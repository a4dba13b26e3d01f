"""Every option once: the command line, the keywords in Python and docs/cli.md are made from here.

`rows` and `core_rows` are the options, `verbs` says which verb takes which, `kinds` are the types
of these rows, and `check` compares words and keywords with them.
"""
