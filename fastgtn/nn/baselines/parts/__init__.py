"""Parts that several baselines share."""
