"""A rented machine on loopback: a real ssh server whose commands run in a temporary folder as the home folder."""

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

MARK = "WHICHDEVICE_TEST_MACHINE"
STATE = "/var/lib/whichdevice"  # where a real machine's startup script writes, as root

PROGRAMS = {
    "python3.11": "exit 0",
    "snakemake": "exit 127",
    # Google's addresses become the stand-in's.
    "curl": """
for word; do
    word=$(printf %s "$word" | sed "s|http://metadata.google.internal|http://$FAKE_API|; s|https://[a-z]*.googleapis.com|http://$FAKE_API|")
    set -- "$@" "$word"; shift
done
exec /usr/bin/curl "$@"
""",
}


@dataclass
class Machine:
    """One machine: its home folder, who may log in, and what its programs do."""

    name: str
    home: Path
    login: str
    key: str


@dataclass
class SshMachines:
    """The server, and the machines behind it, told apart by the login that asks last."""

    folder: Path
    fake_api: str = ""
    on_install: str = ""  # shell, run by envs/install.sh on the machine
    on_run: str = ""  # shell, run by snakemake on the machine
    programs: dict[str, str] = field(default_factory=dict)  # further ones on the machine: name, shell
    machines: dict[str, Machine] = field(default_factory=dict)
    connections: set[Any] = field(default_factory=set)
    sessions: int = 0
    refuse: bool = False  # close each connection at once
    wrong_host_key: bool = False  # tell the API another host key than the server has
    port: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._server = self._run(self._listen())
        self.port = self._server.get_port()

    def _run(self, work: Awaitable[Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)  # type: ignore[arg-type]

    async def _listen(self) -> Any:
        def factory() -> asyncssh.SSHServer:
            return _Login(self)

        return await asyncssh.create_server(
            factory,
            "127.0.0.1",
            0,
            server_host_keys=[self._host_key],
            process_factory=self._command,
            encoding=None,
        )

    async def _command(self, process: Any) -> None:
        machine = self.of(process.get_extra_info("username"))
        if machine is None:
            process.exit(1)
            return
        command = (process.command or "").replace(STATE, str(machine.home / "state"))
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            cwd=machine.home,
            env=self.environment(machine),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self.sessions += 1
        taking = asyncio.create_task(_pump(process.stdin, child.stdin))
        await asyncio.gather(_pump(child.stdout, process.stdout), _pump(child.stderr, process.stderr))
        code = await child.wait()
        taking.cancel()
        process.exit(code if code >= 0 else 128 - code)

    def of(self, login: str) -> Machine | None:
        """The newest machine with that login."""
        return next((one for one in reversed(self.machines.values()) if one.login == login), None)

    def environment(self, machine: Machine) -> dict[str, str]:
        """Variables of every process on the machine."""
        return {
            "HOME": str(machine.home),
            "PATH": f"{machine.home}/programs:/usr/bin:/bin",
            "PAUSE": "0.2",
            "FAKE_API": self.fake_api,
            "ON_INSTALL": self.on_install,
            "ON_RUN": self.on_run,
            MARK: machine.name,
        }

    def boot(self, node: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Start a machine as the API was asked for it; its endpoint, and its host keys."""
        name = node["name"].rpartition("/")[2]
        home = self.folder / name
        (home / "programs").mkdir(parents=True)
        for program, body in {**PROGRAMS, **self.programs}.items():
            path = home / "programs" / program
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        login, _, key = node["metadata"]["ssh-keys"].partition(":")
        machine = self.machines[name] = Machine(name, home, login, key)
        script = node["metadata"]["startup-script"].replace(STATE, str(home / "state"))
        self._run(self._startup(machine, script))
        shown = asyncssh.generate_private_key("ssh-ed25519") if self.wrong_host_key else self._host_key
        kind, value = shown.export_public_key().decode().split()[:2]
        return {"ipAddress": "127.0.0.1", "port": 8470, "accessConfig": {"externalIp": "127.0.0.1"}}, [(kind, value)]

    async def _startup(self, machine: Machine, script: str) -> None:
        child = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", script, cwd=machine.home, env=self.environment(machine), stdin=asyncio.subprocess.DEVNULL
        )
        await child.wait()

    def stop(self, name: str) -> None:
        """The machine is gone: its processes, its connections and its disk."""
        if self.machines.pop(name, None) is None:
            return
        for connection in list(self.connections):
            self._loop.call_soon_threadsafe(connection.abort)
        for pid in processes_of(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def drop(self) -> None:
        """Break every connection."""
        for connection in list(self.connections):
            self._loop.call_soon_threadsafe(connection.abort)

    def close(self) -> None:
        """Stop every machine and the server."""
        for name in list(self.machines):
            self.stop(name)
        self._server.close()
        self._loop.call_soon_threadsafe(self._loop.stop)


async def _pump(source: Any, target: Any) -> None:
    """Hand over what comes until it ends or nobody takes it any more."""
    try:
        while piece := await source.read(1 << 16):
            target.write(piece)
            await target.drain()
    except (OSError, asyncssh.Error):
        pass
    if isinstance(target, asyncio.StreamWriter):  # the command's standard input; the connection's end comes by itself
        target.close()


def processes_of(name: str) -> list[int]:
    """Processes of one machine, by the mark in their environment."""
    mark, found = f"{MARK}={name}".encode(), []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


class _Login(asyncssh.SSHServer):
    def __init__(self, machines: SshMachines) -> None:
        self._machines = machines

    def connection_made(self, connection: Any) -> None:
        self._connection = connection
        self._machines.connections.add(connection)
        if self._machines.refuse:
            connection.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._machines.connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: Any) -> bool:
        machine = self._machines.of(username)
        return machine is not None and key.export_public_key().decode().split()[1] in machine.key.split()
