"""Link prediction on generated graphs."""
