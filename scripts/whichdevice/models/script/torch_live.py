"""`whichdevice.watch`: the step of a PyTorch loop that runs on, recorded like a script's step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from whichdevice.base.errors import StudyError
from whichdevice.models.script.found import Conditions, Script
from whichdevice.models.script.look import keep_watched
from whichdevice.models.script.watch_torch import Watching


class Watch:
    """The step of a PyTorch loop that runs on: `with Watch(optimizer, ask, folder) as step:` around some steps."""

    def __init__(self, optimizer: torch.optim.Optimizer, ask: Callable[..., Any], folder: Path) -> None:
        Watching.meant = self._optimizer = optimizer
        self._ask, self._folder = ask, folder
        self._watching: Watching | None = None
        self._script: Script | None = None

    def __enter__(self) -> "Watch":
        if not Watching.probing:
            self._watching = Watching(Live())  # type: ignore[arg-type]
            self._watching.attach_live(self._optimizer)
        return self

    def __exit__(self, *error: Any) -> None:
        watching, self._watching = self._watching, None
        if watching is None:
            return
        watching.run.over = True
        watching.replacements.close()
        if error[0] is None:
            self._script = watching.ended()
            if self._script is None:
                raise StudyError("watch: the optimiser did not step: run at least one step inside of `with`")

    def ask(self, **wants: Any) -> Any:
        """The answer for this step, with the options of `whichdevice.ask`; raises StudyError in one line."""
        if self._script is None:
            raise StudyError("watch: nothing was recorded: run a step inside of `with whichdevice.watch(...)`")
        return self._ask(keep_watched(self._script, self._folder), **wants)


class Live:
    """Stands for the run of a script where a loop of one's own is watched, which trains on."""

    conditions = Conditions(values=True)
    path = Path("watch")
    over = counts_gpus = False

    def stop(self, _: Any) -> None:
        """Record no more."""
        self.over = True
