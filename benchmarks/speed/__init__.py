"""Speed and memory beside other ways to compute the same."""
