"""The command line: one module per verb, which parses and prints.

In and out: words in; text or JSON, and an exit code out.
Main finds the verb, options makes its arguments from the table, output delivers.
"""
