"""What a command prints while it works."""
