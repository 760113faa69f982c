"""The tables of the paper, with our numbers beside its own."""
