"""Nodes that are not in the graph, described by their features and their edges to nodes of the graph."""
