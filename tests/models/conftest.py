"""Scripts that these tests look at run in forks of one process that has their framework: its import takes longer."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whichdevice.models.script import look

# Neither starts threads when it is imported. Scripts that import their framework elsewhere have a process of their own.
FRAMEWORKS = {
    "transformers": ("torch", "transformers.modeling_utils"), "torch": ("torch",),
    "tensorflow": ("tensorflow", "keras"), "keras": ("keras",), "jax": ("jax",),
}  # fmt: skip
SERVER = """
import json, os, signal, sys
from importlib import import_module

for name in sys.argv[1:]:
    import_module(name)
from whichdevice.models.script import look

for line in sys.stdin:
    asked = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    signal.alarm(int(asked["seconds"]))
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["variables"])
    sys.path[:1] = [asked["folder"], *asked["variables"].get("PYTHONPATH", "").split(os.pathsep)]
    for number, file in enumerate((os.devnull, asked["out"], asked["error"])):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
    sys.argv = asked["command"]
    look.main()
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """What runs a command of `look` as `subprocess.run` does."""
    folder, servers = tmp_path_factory.mktemp("server"), []

    @cache
    def started(modules: Sequence[str], keras: str) -> subprocess.Popen[str]:
        variables = os.environ | look.QUIETLY | {"KERAS_BACKEND": keras}
        servers.append(
            subprocess.Popen(
                [sys.executable, "-c", SERVER, *modules],
                env=variables | look.package_first(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return servers[-1]

    def run(command: list[str], env: dict[str, str], timeout: float, **more: Any) -> subprocess.CompletedProcess[str]:
        text = Path(command[3].partition(" -- ")[0]).read_text(encoding="utf-8")
        name = next((name for name in FRAMEWORKS if f"import {name}" in text or f"from {name}" in text), None)
        if name is None:
            return subprocess.run(command, env=env, timeout=timeout, **more)
        out, error = folder / "out", folder / "error"
        for file in (out, error):
            file.write_text("", encoding="utf-8")
        asked = {"command": command[2:], "folder": str(Path.cwd()), "variables": env, "seconds": timeout}
        process = started(FRAMEWORKS[name], env.get("KERAS_BACKEND", ""))
        print(json.dumps({**asked, "out": str(out), "error": str(error)}), file=process.stdin, flush=True)
        code = int(process.stdout.readline())
        return subprocess.CompletedProcess(command, code, out.read_text(), error.read_text())

    yield run
    for process in servers:
        process.stdin.close()
        process.wait()


@pytest.fixture(autouse=True)
def scripts_in_forks(server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name: getattr(subprocess, name) for name in ("DEVNULL", "TimeoutExpired")}
    monkeypatch.setattr(look, "subprocess", SimpleNamespace(run=server, **names))
