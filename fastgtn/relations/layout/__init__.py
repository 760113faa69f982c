"""How the edges of a stack lie in memory."""
