"""Compiled loops over edges, and how they are compiled and run."""
