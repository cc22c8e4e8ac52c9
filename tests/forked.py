"""Programs of Python that tests start, in forks of one process that has imported what they need: that takes longest."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

SERVER = """
import json, os, runpy, signal, sys, warnings

exec(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    with warnings.catch_warnings():  # of threads, which JAX warns of even where it has none yet
        warnings.simplefilter("ignore")
        child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    signal.alarm(asked["seconds"])
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["variables"])
    for number, file in enumerate((os.devnull, asked["out"], asked["error"])):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    kind, *sys.argv = asked["program"]
    folder = asked["folder"] if kind == "-m" else os.path.dirname(sys.argv[0])
    sys.path[:1] = [folder, *asked["variables"].get("PYTHONPATH", "").split(os.pathsep)]
    if kind == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()
"""


def run_forked(
    program: Sequence[str],
    variables: Mapping[str, str],
    imports: str,
    at_import: Mapping[str, str],
    seconds: float = 900,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `-m`, a module and its arguments, or "", a file and its arguments, in a folder with these variables.

    It begins after the statements `imports`, which saw the variables `at_import`; who shares both forks one process.
    """
    server, place = _server(imports, tuple(sorted(at_import.items())))
    files = {name: str(Path(place.name, name)) for name in ("out", "error")}
    asked = {"program": program, "variables": dict(variables), "folder": str(folder or Path.cwd())}
    print(json.dumps({**asked, **files, "seconds": int(seconds)}), file=server.stdin, flush=True)
    code = int(server.stdout.readline())
    imported, out, error = (Path(place.name, name).read_text(encoding="utf-8") for name in ("imported", *files))
    return subprocess.CompletedProcess(program, code, out, imported + error)


@cache
def _server(imports: str, at_import: tuple[tuple[str, str], ...]) -> tuple[subprocess.Popen[str], TemporaryDirectory]:
    """A process that forks, and where it writes; it ends with that of the tests, which closes its pipe then."""
    place = TemporaryDirectory()
    with Path(place.name, "imported").open("w") as said:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, imports], env=os.environ | dict(at_import), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=said, text=True,
        )  # fmt: skip
    return server, place
