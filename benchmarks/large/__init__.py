"""Large graphs: the command, and what one of its processes does."""
