"""The commands that score nodes with a trained run."""
