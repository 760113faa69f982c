"""Search for a config by validation scores."""
