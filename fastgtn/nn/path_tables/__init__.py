"""Meta-path features of wanted rows, computed once."""
