"""What was decided before the training of a run, and the control that shows what its choice of paths is worth."""
