"""What the commands do for link models."""
