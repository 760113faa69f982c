"""Drawings of the report page."""
