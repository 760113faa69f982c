"""Scoring of single nodes: finding them by id, and computing only what they depend on."""
