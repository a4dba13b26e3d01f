"""Options: the types of a verb's record, the rows that several verbs share, words as values.

Options of one verb stand in its record, in `verbs`. The command line, the keywords in Python,
docs/cli.md and completion are made from these.
"""
