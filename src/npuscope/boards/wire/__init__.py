"""The wire between a host and the validation firmware of a board, in its three revisions.

In and out: messages to packets and back.
Messages: the tables; protobuf, framing: bytes; statistics: counters in log lines.
"""
