"""The loops of the samplers: random draws, and the edges of a batch."""
