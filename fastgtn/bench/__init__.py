"""The tables of the paper, with its numbers and ours side by side."""
