"""Plant faults in a small study, call it again, and count what was lost.

python tests/faults/campaign.py [--kills 50] [--seed 1]    prints "N faults, 0 lost"

A loss is a record that ever lay there whole and is gone or another, a half-written file that stayed or was there to be
read, a study that did not finish by a plain `snakemake all`, or a fault that the report does not tell.
"""

import argparse
import contextlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from faults.trial import RUN, SNAKEMAKE, STUDY, SUPERVISOR, WAIT, Trial  # noqa: E402
from workflow.conftest import copy_project  # noqa: E402


def kill_at(trial: Trial, seconds: float, what: str) -> bool:
    """Kill Snakemake, the supervisor or the measured process (or all) after a moment, then check.

    Waits on until there is one. False where the study ended before.
    """
    process = trial.start()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    killed = False
    while process.poll() is None and not killed:
        killed = trial.kill("" if what == "everything" else what) > 0
    process.communicate(timeout=WAIT)
    deadline = time.monotonic() + 60
    while trial.processes(RUN) and time.monotonic() < deadline:
        time.sleep(0.05)
    trial.expect(not trial.processes(RUN), "a measured process outlived the study")
    trial.check()
    return killed


def kills(folder: Path, number: int, seed: int, duration: float, say: Callable[[str], None]) -> list[str]:
    """Kill at so many random moments of a study of about that duration in seconds; the losses.

    By turns of a new study, and of one whose config has changed, so that its records are being replaced.
    """
    draw = random.Random(seed)
    losses: list[str] = []
    turn = tries = 0
    while turn < number:
        what = (SNAKEMAKE, RUN, SUPERVISOR, "everything")[turn // 2 % 4]
        replacing = turn % 2 == 1
        trial = replaced(folder, tries) if replacing else Trial(folder, f"kill{tries}", STUDY)
        moment, began = draw.uniform(0.5, duration), time.monotonic()
        hit = kill_at(trial, moment, what)
        trial.watch.end()
        took = time.monotonic() - began
        if hit:
            turn += 1
            study = "records being replaced" if replacing else "a new study"
            say(f"kill {turn}, {study}: {what} after {moment:.1f} s: {'; '.join(trial.losses) or 'nothing lost'}")
        else:  # the machine has got faster: with less to draw from, the next one hits
            duration = max(1.0, min(duration, took) * 0.9)
        losses += trial.losses
        tries += 1
        if not replacing:
            shutil.rmtree(trial.results)
    return losses


def replaced(folder: Path, turn: int) -> Trial:
    """The study `replaced` with a config that it never had."""
    seconds = STUDY["measure"]["seconds"] + turn / 1000
    config = {**STUDY, "measure": {**STUDY["measure"], "seconds": seconds}}
    return Trial(folder, "replaced", config, wanted=lambda record: record.asked.seconds == seconds)


def planted(folder: Path, chosen: list[str], say: Callable[[str], None]) -> tuple[int, list[str]]:
    """Plant the faults of that name; how many could be planted here, and the losses."""
    from faults.planted import FAULTS

    number, losses = 0, []
    for name in chosen or FAULTS:
        trial = Trial(folder, name, STUDY)
        skipped = FAULTS[name](trial)
        trial.watch.end()
        if skipped is not None:
            say(f"{name}: not planted: {skipped}")
            continue
        say(f"{name}: {'; '.join(trial.losses) or 'nothing lost'}")
        number, losses = number + 1, losses + trial.losses
    return number, losses


def main() -> int:
    """The long campaign: every planted fault once, then the kills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", nargs="*", default=[], help="only these of the planted ones")
    asked = parser.parse_args()

    def say(line: str) -> None:
        print(line, flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = copy_project(Path(scratch) / "a study").folder
        first = Trial(folder, "first", STUDY)
        began = time.monotonic()
        first.check()
        duration = time.monotonic() - began
        say(f"an undisturbed study takes {duration:.0f} s: {'; '.join(first.losses) or 'nothing lost'}")
        number, losses = planted(folder, asked.faults, say)
        losses += first.losses + kills(folder, asked.kills, asked.seed, duration, say)
    print("\n".join(losses))
    print(f"{number + asked.kills} faults, {len(losses)} lost")
    return bool(losses)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
