"""The wire between a host and the validation firmware of a board, in its three revisions."""
