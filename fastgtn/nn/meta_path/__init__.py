"""What GTN and FastGTN have in common: the model, and its keys in a config."""
