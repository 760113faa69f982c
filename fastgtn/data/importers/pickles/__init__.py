"""Read pickles of numbers without executing them."""
