"""Between the last epoch and the result: units, calibration, class frequencies, a threshold for an aim."""

from fastgtn.training.finish.last_layer import check_finish, finish, start_at_prior

__all__ = ["check_finish", "finish", "start_at_prior"]
