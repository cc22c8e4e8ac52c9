"""Faults that are planted one at a time; each returns why it could not be planted here, or None."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.campaign import LEARNING, STUDY, Trial

OWN = """
import os, time
from whichdevice.workloads.base import Recipe
from whichdevice.workloads.matmul import Matmul


class Own(Matmul):
    recipe = Recipe("a test", 8)

    def operands(self, random):
        {act}
        return super().operands(random)
"""


def record_cut(trial: Trial) -> str | None:
    """Half a record on disk is told as unreadable, and measured again when asked."""
    _damage(trial, lambda content: content[: len(content) // 2])
    return None


def record_garbled(trial: Trial) -> str | None:
    """Likewise a record with wrong bytes in the middle."""
    _damage(trial, lambda content: content[:100] + os.urandom(50) + content[150:])
    return None


def _damage(trial: Trial, change: Callable[[bytes], bytes]) -> None:
    trial.check({})
    victim = trial.results / sorted(trial.records())[0]
    victim.write_bytes(change(victim.read_bytes()))
    before = trial.records()
    trial.check(before, "unreadable", {"ok", "unreadable"})
    code, said = trial.call("all", "--forcerun", "measure", "--config", "retry=failed")
    trial.expect(code == 0, f"retry ended with {code}: {said[-1000:]}")
    trial.check(before)


def dataset_bit_flipped(trial: Trial) -> str | None:
    """One wrong bit in the data is seen before the next run, which prepares them anew."""
    trial.config = {**STUDY, "workloads": LEARNING, "measure": {**STUDY["measure"], "repeats": 1}}
    trial.check({})
    before = trial.records()
    array = trial.folder / "results/datasets/mnist/standin/train_images.npy"
    content = bytearray(array.read_bytes())
    content[len(content) // 2] ^= 1
    array.write_bytes(content)
    trial.config = {**trial.config, "measure": {**STUDY["measure"], "repeats": 2}}
    trial.check(before)
    trial.expect(array.read_bytes() != bytes(content), "a flipped bit went unseen")
    return None


def clock_set_back(trial: Trial) -> str | None:
    """Files of tomorrow stay what they are, and new runs still reach the tables."""
    trial.check({})
    before, tomorrow = trial.records(), time.time() + 86_400
    for path in trial.results.rglob("*"):
        os.utime(path, (tomorrow, tomorrow))
    trial.config = {**STUDY, "measure": {**STUDY["measure"], "repeats": 4}}
    trial.check(before)
    trial.expect(len(trial.records()) == 4, "the fourth run is missing")
    rows = (trial.results / "tables/runs.csv").read_text(encoding="utf-8").count("/r4,")
    trial.expect(rows == 1, "the fourth run is not in the tables")
    return None


def disk_full(trial: Trial) -> str | None:
    """A full disk under the study's runs ends the call; with room again it goes on."""
    with _small_disk(trial.results / "runs") as disk:
        if disk is None:
            return "mounting a small file system needs root"
        (disk / "ballast").write_bytes(b"0" * (2**20 - 2**14))
        code, said = trial.call()
        trial.expect(code != 0 and "No space left" in said, f"a full disk went unseen: {said[-1000:]}")
        trial.expect("Traceback" not in said, "a traceback")
        (disk / "ballast").unlink()
        trial.check(trial.records())
    return None


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path | None]:
    folder.mkdir(parents=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def out_of_memory(trial: Trial) -> str | None:
    """A run that the system kills is a row with that status."""
    _own(trial, "os.kill(os.getpid(), 9)", "out_of_memory", "killed by the system")
    return None


def run_hangs(trial: Trial) -> str | None:
    """A run that never ends is ended at the time limit of the config."""
    _own(trial, "time.sleep(600)", "timed_out", "still running after measure.timeout", timeout=15)
    return None


def _own(trial: Trial, act: str, status: str, told: str, timeout: float = 60) -> None:
    (trial.folder / f"{trial.study}.py").write_text(OWN.format(act=act), encoding="utf-8")
    own = {"module": f"{trial.study}.py", "backend": ["jax"]}
    workloads = {**STUDY["workloads"], "own": own}
    trial.config = {**STUDY, "workloads": workloads, "measure": {**STUDY["measure"], "repeats": 1, "timeout": timeout}}
    trial.check({}, told, {"ok", status})


def two_at_once(trial: Trial) -> str | None:
    """Of two calls of one study the second is refused in one line; another study in the same folder waits and ends."""
    first = trial.start()
    lock = trial.results / ".lock"
    while not lock.exists() and first.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    other = trial.start(study=f"{trial.study}_other")
    code, said = trial.call()
    whole, _ = first.communicate(timeout=1200)
    trial.expect(first.returncode == 0, f"the first call failed: {whole[-1000:]}")
    trial.expect(code == 0 or "another" in said, f"the second call: {said[-1000:]}")
    whole, _ = other.communicate(timeout=1200)
    trial.expect(other.returncode == 0, f"the other study failed: {whole[-1000:]}")
    trial.check(trial.records())
    return None


def read_only_tree(trial: Trial) -> str | None:
    """A clone that cannot be written to: one clear line, and nothing is harmed."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        return "a read-only mount needs root"
    trial.check({})
    before = trial.records()
    mounted = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'
    prefix = ("unshare", "-m", "sh", "-c", mounted, str(trial.folder))
    code, said = trial.call("all", "--forcerun", "measure", prefix=prefix)
    trial.expect(code != 0 and "Traceback" not in said, f"a read-only tree: {said[-1500:]}")
    trial.check(before)
    return None


FAULTS: dict[str, Callable[[Trial], str | None]] = {
    plant.__name__: plant
    for plant in (
        record_cut,
        record_garbled,
        dataset_bit_flipped,
        clock_set_back,
        disk_full,
        out_of_memory,
        run_hangs,
        two_at_once,
        read_only_tree,
    )
}
