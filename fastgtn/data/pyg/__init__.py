"""Graphs of PyTorch Geometric in memory: read, cut into batches, and their attributes of edges."""
