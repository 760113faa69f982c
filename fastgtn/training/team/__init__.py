"""Several processes that train one model together, and what they exchange."""

from fastgtn.training.team.processes import ALONE, Team, is_launched, is_restarted, joined, may_restart

__all__ = ["ALONE", "Team", "is_launched", "is_restarted", "joined", "may_restart"]
