"""The study on the machine: started once, apart from any connection, then followed however often that breaks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from whichdevice.cloud.ssh import CommandFailedError, ConnectionLostError, Ssh, quoted
from whichdevice.errors import StudyError

FOLDER = "whichdevice-run"  # in the home folder on the machine
SCRIPT = Path(__file__).with_name("remote_run.sh")
STAGES = {"install": "installing the software stack", "measure": "the tpu target", "done": "the tpu target"}
RECONNECT_SECONDS = 300.0  # without any connection, after which the machine counts as lost
SYNC_SECONDS = 300.0  # between two times that records are brought back meanwhile
SIGNALLED = 128  # exit statuses from here on mean that a signal ended it


class MachineGoneError(StudyError):
    """The machine is no longer there or no longer reached."""


def run_script(environment: str, arguments: Sequence[str]) -> str:
    """The shell script that installs and measures, with its settings."""
    return f"ENVIRONMENT={quoted(environment)}\nset -- {quoted(*arguments)}\n{SCRIPT.read_text(encoding='utf-8')}"


def send(ssh: Ssh, archive: IO[bytes]) -> None:
    """Unpack the archive in the project's folder on the machine."""
    ssh.run(f"mkdir -p {FOLDER}/project && tar -xzf - -C {FOLDER}/project", "sending the project", stdin=archive)


def start(ssh: Ssh, script: str) -> None:
    """Start the study unless it was started before; it goes on whatever becomes of the connection."""
    body = f"sh -c {quoted(script)}; echo $? >../exit"
    inner = quoted("sh", "-c", f"cd project && {{ {body}; }}")
    remote = (
        f"cd {FOLDER} && if mkdir started 2>/dev/null; then "
        f"setsid nohup {inner} >log 2>&1 </dev/null & echo $! >pid; fi"
    )
    # The braces keep the background process out of what ssh waits for.
    ssh.run(remote, "starting the study")


@dataclass
class Follower:
    """Follows the study's log to its end and hands every byte on once."""

    ssh: Ssh
    take: Callable[[bytes], None]
    sync: Callable[[], None]  # called between two pieces of log, now and then
    still_there: Callable[[], str | None]  # None, or why the machine is no longer to be reckoned with
    deadline: float  # on the monotonic clock
    seen: int = 0
    _synced: float = field(default_factory=time.monotonic)

    def follow(self) -> None:
        """Until the study's end; raises CommandFailedError if it failed or took too long, else MachineGoneError."""
        heard = time.monotonic()
        while True:
            before = self.seen
            try:
                self._tail()
                code = self._exit_status()
                if code is not None:
                    return self._judge(code)
                heard = time.monotonic()
            except ConnectionLostError as error:
                heard = time.monotonic() if self.seen > before else heard
                reason = self.still_there()
                if reason is not None:
                    raise MachineGoneError(reason) from error
                if time.monotonic() - heard > RECONNECT_SECONDS:
                    raise MachineGoneError(
                        f"no connection to the machine for {RECONNECT_SECONDS:.0f} s ({error})"
                    ) from error
            if time.monotonic() > self.deadline:
                raise CommandFailedError("the study was not done when the machine's life ended (tpu_vm.max_hours)")
            self.ssh.stopping.wait(0.5)

    def _tail(self) -> None:
        left = max(1, round(self.deadline - time.monotonic()))
        tail = f"timeout {left} tail -c +{self.seen + 1} -s 0.3 -f --pid=$(cat pid) log"
        self.ssh.stream(f"cd {FOLDER} && {{ {tail} || true; }}", "following the log", self._took, merged=False)

    def _took(self, piece: bytes) -> None:
        self.seen += len(piece)
        self.take(piece)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()
            self._synced = time.monotonic()

    def _exit_status(self) -> int | None:
        told = self.ssh.run(f"cat {FOLDER}/exit 2>/dev/null || true", "asking how the study ended").strip()
        return int(told) if told.isdigit() else None

    def _judge(self, code: int) -> None:
        if code == 0:
            return
        stage = self.ssh.run(f"cat {FOLDER}/stage 2>/dev/null || true", "asking how far the study came").strip()
        how = f"was ended by signal {code - SIGNALLED}" if code > SIGNALLED else f"failed (exit status {code})"
        raise CommandFailedError(f"{STAGES.get(stage, 'the study')} {how} on the machine; see above")


def end(ssh: Ssh, after: int) -> None:
    """End the study on the machine, with everything that it started."""
    remote = f"cd {FOLDER} && [ ! -e exit ] && kill -TERM -- -$(cat pid); true"
    ssh.run(remote, "ending the study", after=after)
