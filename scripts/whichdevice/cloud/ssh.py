"""Commands on a machine through the system's OpenSSH client."""

import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from whichdevice.cloud.keys import Keys
from whichdevice.cloud.stopping import Stopping
from whichdevice.errors import StudyError

LOST = 255  # ssh's own exit status: no connection, or the connection broke
CONNECT_PATIENCE, ALIVE_EVERY, ALIVE_MISSED = 10, 15, 4  # seconds, seconds, answers
CHUNK = 1 << 16


class ConnectionLostError(StudyError):
    """ssh could not connect, or the connection broke."""


class CommandFailedError(StudyError):
    """The command ran on the machine and failed."""


@dataclass
class Ssh:
    """One machine, reached as one user."""

    address: str
    user: str
    port: int
    keys: Keys
    strict: bool  # whether the API told the host keys; without, the first one met is trusted
    stopping: Stopping

    def command(self, remote: str | None, terminal: bool = False) -> list[str]:
        """The ssh command line; no file of the person's own ssh configuration takes part in it."""
        options = {
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": _quoted(str(self.keys.known_hosts)),
            "GlobalKnownHostsFile": "none",
            "StrictHostKeyChecking": "yes" if self.strict else "accept-new",
            "ConnectTimeout": CONNECT_PATIENCE,
            "ServerAliveInterval": ALIVE_EVERY,
            "ServerAliveCountMax": ALIVE_MISSED,
            "LogLevel": "ERROR",
            **({} if terminal else {"BatchMode": "yes"}),
        }
        words = ["ssh", "-F", "none", "-i", str(self.keys.private), "-p", str(self.port), "-l", self.user]
        words += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return [*words, *(["-t"] if terminal else []), "--", self.address, *([remote] if remote else [])]

    def run(self, remote: str, what: str, stdin: IO[bytes] | None = None, after: int = 0) -> str:
        """Run a command to its end; what it printed. Its errors begin with `what`."""
        with self.start(remote, stdin, merged=False, after=after) as process:
            out, err = process.communicate()
        _check(process.returncode, what, err)
        return out.decode(errors="replace")

    def stream(self, remote: str, what: str, take: Callable[[bytes], None], merged: bool, after: int = 0) -> None:
        """Run a command to its end and hand over what it prints as it comes, its errors too if `merged`."""
        with self.start(remote, None, merged=merged, after=after) as process:
            out, err = process.stdout, process.stderr
            assert out is not None
            while chunk := out.read1(CHUNK):  # type: ignore[attr-defined]  # a buffered reader
                take(chunk)
            told = b"" if err is None else err.read()
            process.wait()
        _check(process.returncode, what, told)

    @contextmanager
    def start(
        self, remote: str, stdin: IO[bytes] | None, merged: bool, after: int
    ) -> "Iterator[subprocess.Popen[bytes]]":
        """The ssh process; a session of its own, so that Ctrl-C reaches this program and not ssh."""
        errors = subprocess.STDOUT if merged else subprocess.PIPE
        try:
            process = subprocess.Popen(
                self.command(remote),
                stdin=stdin or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise StudyError("no ssh on this machine: install OpenSSH's client (openssh-client)") from None
        with process, self.stopping.running(process, after):
            yield process

    def shell(self, remote: str | None) -> int:
        """An interactive shell, or a command in a terminal; its exit status."""
        return subprocess.call(self.command(remote, terminal=True))


def quoted(*words: str) -> str:
    """Words as a POSIX shell takes them."""
    return shlex.join(words)


def _quoted(path: str) -> str:
    """A path as ssh's options take it: a space ends one that has no quotes, % begins a token."""
    return '"' + path.replace("%", "%%") + '"'


def _check(code: int, what: str, told: bytes) -> None:
    last = told.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {code}"]
    if code == LOST:
        raise ConnectionLostError(f"{what}: {last[0]}")
    if code != 0:
        raise CommandFailedError(f"{what}: {last[0]}")
