"""Figures as image files, drawn with matplotlib."""
