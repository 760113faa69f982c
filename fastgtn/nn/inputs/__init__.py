"""Inputs of the models: features, and the map from them to the first hop."""
