"""Faults that are planted one at a time; each returns why it could not be planted here, or None."""

import os
import subprocess
import time
from collections.abc import Callable

from faults.memory_limit import allocation_refused, killed_for_memory, own_workload
from faults.small_disk import disk_full, disk_full_for_datasets
from faults.trial import LEARNING, STUDY, WAIT, Trial


def record_cut(trial: Trial) -> str | None:
    """Half a record on disk is told as unreadable, and measured again when asked."""
    _damage(trial, lambda content: content[: len(content) // 2])
    return None


def record_garbled(trial: Trial) -> str | None:
    """Likewise a record with wrong bytes in the middle."""
    _damage(trial, lambda content: content[:100] + os.urandom(50) + content[150:])
    return None


def _damage(trial: Trial, change: Callable[[bytes], bytes]) -> None:
    trial.check()
    victim = trial.results / sorted(trial.watch.seen)[0]
    trial.watch.damaged(victim, change(victim.read_bytes()))
    trial.check("unreadable", {"ok", "unreadable"})
    code, said = trial.call("all", "--forcerun", "measure", "--config", "retry=failed")
    trial.expect(code == 0, f"retry ended with {code}: {said[-1000:]}")
    trial.check()


def dataset_bit_flipped(trial: Trial) -> str | None:
    """One wrong bit in the data is seen before the next run, which prepares them anew."""
    trial.config = {**STUDY, "workloads": LEARNING, "measure": {**STUDY["measure"], "repeats": 1}}
    trial.check()
    (array,) = trial.folder.glob("results/datasets/mnist/standin-*/train_images.npy")
    content = bytearray(array.read_bytes())
    content[len(content) // 2] ^= 1
    array.write_bytes(content)
    trial.config = {**trial.config, "measure": {**STUDY["measure"], "repeats": 2}}
    trial.check()
    trial.expect(array.read_bytes() != bytes(content), "a flipped bit went unseen")
    return None


def clock_set_back(trial: Trial) -> str | None:
    """Files of tomorrow, the workflow's own among them, stay what they are, and new runs still reach the tables."""
    trial.check()
    tomorrow = time.time() + 86_400
    for path in trial.folder.rglob("*"):
        if ".snakemake" not in path.parts:
            os.utime(path, (tomorrow, tomorrow))
    trial.config = {**STUDY, "measure": {**STUDY["measure"], "repeats": 4}}
    trial.check()
    trial.expect(len(trial.watch.seen) == 4, "the fourth run is missing")
    rows = (trial.results / "tables/runs.csv").read_text(encoding="utf-8").count("/r4,")
    trial.expect(rows == 1, "the fourth run is not in the tables")
    return None


def killed_as_a_record_lands(trial: Trial) -> str | None:
    """Killed when a record is there and Snakemake has not noted it yet: it stays whole, and runs at most once more."""
    process = trial.start()
    while not trial.watch.seen and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    trial.kill("")
    process.communicate(timeout=WAIT)
    trial.interrupted += 1
    trial.expect(len(trial.watch.seen) == 1, "killed too late")
    trial.check()
    return None


def run_hangs(trial: Trial) -> str | None:
    """A run that never ends is ended at the time limit of the config."""
    own_workload(trial, "time.sleep(600)", timeout=15)
    trial.check("still running after measure.timeout", {"ok", "timed_out"})
    return None


def two_at_once(trial: Trial) -> str | None:
    """Of two calls of one study the second is refused in one line; another study in the same folder waits and ends."""
    first = trial.start()
    lock = trial.results / ".lock"
    while not lock.exists() and first.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    other = trial.start(study=f"{trial.study}_other")
    code, said = trial.call()
    whole, _ = first.communicate(timeout=WAIT)
    trial.expect(first.returncode == 0, f"the first call failed: {whole[-1000:]}")
    trial.expect(code == 0 or "another" in said, f"the second call: {said[-1000:]}")
    whole, _ = other.communicate(timeout=WAIT)
    trial.expect(other.returncode == 0, f"the other study failed: {whole[-1000:]}")
    trial.check()
    return None


def read_only_tree(trial: Trial) -> str | None:
    """A clone that cannot be written to: one clear line, and nothing is harmed."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        return "a read-only mount needs root"
    trial.check()
    mounted = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'
    prefix = ("unshare", "-m", "sh", "-c", mounted, str(trial.folder))
    code, said = trial.call("all", "--forcerun", "measure", prefix=prefix)
    trial.expect(code != 0 and "Traceback" not in said, f"a read-only tree: {said[-1500:]}")
    trial.check()
    return None


FAULTS: dict[str, Callable[[Trial], str | None]] = {
    plant.__name__: plant
    for plant in (
        record_cut,
        record_garbled,
        dataset_bit_flipped,
        clock_set_back,
        disk_full,
        disk_full_for_datasets,
        killed_for_memory,
        allocation_refused,
        killed_as_a_record_lands,
        run_hangs,
        two_at_once,
        read_only_tree,
    )
}
