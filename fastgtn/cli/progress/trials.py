"""Progress of a search: the trials so far and the best of them."""

from optuna.trial import FrozenTrial
from rich.progress import TimeElapsedColumn

from fastgtn.cli.progress.training import StoppableBar
from fastgtn.tuning.trials import TuneListener


class TrialBar(StoppableBar, TuneListener):
    """The number of trials and the best score so far, as a bar that is shown on a terminal only."""

    def __init__(self, title: str, trials: int) -> None:
        super().__init__(TimeElapsedColumn())
        self.task = self.bar.add_task(title, total=trials, facts="")

    def how_to_continue(self) -> str:
        return "run the same command to resume; finished trials are kept"

    def started(self, ended: int, best: FrozenTrial | None) -> None:
        self._show(ended, best)

    def trial_done(self, trial: FrozenTrial, ended: int, best: FrozenTrial | None) -> None:  # noqa: ARG002
        self._show(ended, best)

    def _show(self, ended: int, best: FrozenTrial | None) -> None:
        facts = "" if best is None else f"best val {100 * float(best.value or 0):.2f} in trial {best.number}"
        self.bar.update(self.task, completed=ended, facts=facts)
