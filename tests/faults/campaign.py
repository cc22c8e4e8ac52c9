"""Plant faults in a small study, call it again, and count what was lost.

python tests/faults/campaign.py [--kills 50] [--seed 1]    prints "N faults, 0 lost"

A loss is a record that was ever there whole and is gone, more than one record measured again after a stop, a
half-written file that stayed or was there to be read, a study that a plain call did not finish, or a fault that the
report hides.
"""

import argparse
import contextlib
import random
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

WHAT = (SNAKEMAKE, RUN, SUPERVISOR, "everything")
ROUND, REPEATS = 8, 3  # kills of one study before it is finished, and its runs


def kill_at(trial: Trial, seconds: float, what: str) -> bool:
    """Kill Snakemake, the supervisor or the measured process (or all) after a moment; waits until there is one.

    False where the call ended before.
    """
    process = trial.start("runs")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    killed = False
    while process.poll() is None and not killed:
        killed = trial.kill("" if what == "everything" else what) > 0
    process.communicate(timeout=WAIT)
    trial.interrupted += killed
    deadline = time.monotonic() + 60
    while trial.processes(RUN) and time.monotonic() < deadline:
        time.sleep(0.05)
    trial.expect(not trial.processes(RUN), "a measured process outlived the study")
    return killed


def kills(folder: Path, number: int, seed: int, duration: float, say: Callable[[str], None]) -> list[str]:
    """Kill at so many random moments, up to `duration` seconds after a call's start; the losses.

    Rounds of kills on one study, each finished by plain calls. By turns of a new study, and of one whose config has
    changed, so that it measures beside its older records.
    """
    draw = random.Random(seed)
    losses: list[str] = []
    turn = rounds = 0
    while turn < number:
        name, seconds = ("changed", 0.1 + rounds / 1000) if rounds % 2 else (f"kill{rounds}", 0.1)
        measure = {**STUDY["measure"], "seconds": seconds, "repeats": REPEATS}
        trial = Trial(folder, name, {**STUDY, "measure": measure})
        for _ in range(min(ROUND, number - turn)):
            what = WHAT[turn % len(WHAT)]
            moment = draw.uniform(0.5, duration)
            if not kill_at(trial, moment, what):
                break  # the study is whole
            turn += 1
            say(f"kill {turn}, {name}: {what} after {moment:.1f} s")
        trial.finish()
        trial.watch.end()
        say(f"{name}: {'; '.join(trial.losses) or 'nothing lost'}; {len(trial.watch.repeated)} measured twice")
        losses += trial.losses
        rounds += 1
    return losses


def planted(folder: Path, chosen: list[str], say: Callable[[str], None]) -> tuple[int, list[str]]:
    """Plant the faults of that name; how many could be planted here, and the losses."""
    from faults.planted import FAULTS

    number, losses = 0, []
    for name in [] if chosen == ["none"] else chosen or FAULTS:
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
    parser.add_argument("--faults", nargs="*", default=[], help="only these of the planted ones; none: none of them")
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
        losses += first.losses + kills(folder, asked.kills, asked.seed, min(duration, 25.0), say)
    print("\n".join(losses))
    print(f"{number + asked.kills} faults, {len(losses)} lost")
    return bool(losses)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
