"""Before training: scale features, screen meta-paths, decide open keys, and start a model from what was found."""
