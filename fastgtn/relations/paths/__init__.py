"""Meta-paths: their names, and the decomposition of hops into them."""
