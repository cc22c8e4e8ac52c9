"""`rent` takes the machine down whatever happens, brings records back, and shows a price before it asks."""

import json
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import synthetic
from beside import beside

from whichdevice.__main__ import main
from whichdevice.apps.commands import rent
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.models.address import read_address
from whichdevice.models.script.found import Found
from whichdevice.models.script.look import keep
from whichdevice.study.config.model import Device

BESIDE = beside(__file__)

pytestmark = pytest.mark.slow
FAKE = Path(__file__).parents[1] / "fakes/sky.py"
RENT = ["rent", "--on", "L4", "--configfile", "small.json"]
CONFIG = {**synthetic.SMALL, "devices": {"gpu": {"kind": "gpu"}}, "data": {"source": "standin"}}
LONGEST = 240.0  # seconds after which a scenario hangs, on a busy machine too


@dataclass
class Stage:
    """The fake's folder, and `rent` in a process of its own."""

    folder: Path

    def faults(self, **faults: object) -> None:
        """What goes wrong; _ stands for a space."""
        text = json.dumps({name.replace("_", " "): value for name, value in faults.items()})
        (self.folder / "faults.json").write_text(text)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def alive(self) -> bool:
        """Whether a machine is up, or will be."""
        return (self.folder / "machine").exists() or (self.folder / "queued").exists()

    def start(self, *arguments: str) -> "Started":
        """Start `rent` on a terminal of its own."""
        child, terminal = pty.fork()
        if not child:
            status = 1
            for number in (signal.SIGHUP, signal.SIGTERM):  # the tests may run under nohup
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                sys.stdin, sys.stdout, sys.stderr = (os.fdopen(fd, mode) for fd, mode in enumerate("rww"))
                status = main([*RENT, *arguments])
                sys.stderr.flush()
            finally:
                os._exit(status)
        return Started(child, terminal)

    def hanging(self) -> None:
        """Wait until the fake hangs in the stage that the test wants, then let it go at the next call."""
        wait(lambda: (self.folder / "hanging").exists())
        (self.folder / "hanging").unlink()


@dataclass
class Started:
    """The process and its terminal."""

    child: int
    terminal: int

    def ended(self) -> tuple[int, str]:
        """Exit status, negative for a signal, and what it printed."""
        printed = b""
        while self.terminal >= 0:
            if not select.select([self.terminal], [], [], LONGEST)[0]:
                os.kill(self.child, signal.SIGKILL)
            try:
                printed += os.read(self.terminal, 4096)
            except OSError:
                os.close(self.terminal)
                self.terminal = -1
        wait(lambda: os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]), re.sub(r"\s+", " ", printed.decode())

    def close(self) -> None:
        """Close the terminal, as a window is closed."""
        os.close(self.terminal)
        self.terminal = -1


def wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST
    while not done():
        assert time.monotonic() < end, "this took too long"
        time.sleep(0.02)


@pytest.fixture
def stage(working_folder, tmp_path, monkeypatch):
    folder = tmp_path / "sky"
    (folder / "bin").mkdir(parents=True)
    for name in ("sky", "rsync"):
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{FAKE}" {name} "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SKY", str(folder))
    monkeypatch.setattr(rent, "PAUSE", 0.05)
    synthetic.write_study(synthetic.small_study(devices={"gpu": Device(kind="gpu")}), folder / "records")
    Path("small.json").write_text(json.dumps(CONFIG))
    Path("envs").mkdir()
    Path("envs/rented.sh").touch()
    stage = Stage(folder)
    stage.faults()
    return stage


def brought() -> int:
    """How many records are here."""
    return len(list(Path("results/rented/small").rglob("record.json")))


def test_a_study_is_measured_its_records_come_back_and_the_machine_goes(stage):
    status, printed = stage.start("--yes").ended()
    assert status == 0 and not stage.alive
    assert '"accelerators": "L4:1"' in printed and " USD an hour, at most " in printed and "measuring ..." in printed
    assert "whichdevice study report --configfile small.json --records results/rented/small" in printed
    assert brought() == 4
    assert [call for call in stage.calls if call.startswith("sky down")]


def test_records_come_back_while_the_study_goes_on(stage, monkeypatch):
    monkeypatch.setattr(rent, "EVERY", 0.1)
    stage.faults(hang_in_run=1)
    started = stage.start("--yes")
    stage.hanging()
    wait(lambda: brought() == 4)
    assert stage.alive
    os.kill(started.child, signal.SIGINT)
    assert started.ended()[0] == 130 and not stage.alive


# Fault: what `rent` says of it. All end with another status than 0.
FAULTS = BESIDE["faults"]


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_the_machine_is_down(stage, fault):
    faults, said = FAULTS[fault]
    stage.faults(**faults)
    status, printed = stage.start("--yes").ended()
    assert status == 2 and said in printed
    assert not stage.alive
    assert brought() == (0 if "rsync fails" in faults else 4), "what was measured before the fault is kept"


@pytest.mark.parametrize("fault", ["rsync fails", "down fails", "status fails"])
def test_what_fails_once_is_tried_again(stage, fault):
    stage.faults(**{fault: 1})
    status, printed = stage.start("--yes").ended()
    assert status == 0, printed
    assert brought() == 4 and not stage.alive


@pytest.mark.parametrize("fault", ["down fails", "status fails"])
def test_a_machine_that_stays_is_named_with_the_command_that_ends_it(stage, fault):
    stage.faults(**{fault: 99})
    status, printed = stage.start("--yes").ended()
    name = (stage.folder / "machine/name").read_text() if fault == "down fails" else r"whichdevice-small-\w{6}"
    assert status == 2 and re.search(rf"COULD NOT BE TAKEN DOWN and costs money; run: \S+sky down -y {name}", printed)


@pytest.mark.parametrize(
    ("how", "where"),
    [
        *[(signal.SIGINT, where) for where in ("launch", "run", "rsync", "down")],
        *[pytest.param(signal.SIGTERM, where, marks=pytest.mark.long) for where in ("launch", "run")],
        *[pytest.param(signal.SIGHUP, where, marks=pytest.mark.long) for where in ("launch", "down")],
        (signal.SIGHUP, "run"),
    ],
)
def test_no_signal_keeps_the_machine(stage, where, how):
    stage.faults(**{f"hang in {where}": 1})
    started = stage.start("--yes")
    stage.hanging()
    for _ in range(2):
        started.close() if how == signal.SIGHUP and started.terminal >= 0 else os.kill(started.child, how)
        time.sleep(0.3)
    if where in ("rsync", "down"):  # which it waits for
        (stage.folder / "released").touch()
    assert started.ended()[0] == (130 if where in ("launch", "run") else 0)
    assert not stage.alive
    assert brought() == (0 if where == "launch" else 4)


@pytest.mark.parametrize(("typed", "status"), [("\x03", 130), ("n\n", 2), ("\n", 2), ("\x04", 2)])
def test_any_answer_but_yes_rents_nothing(stage, typed, status):
    started = stage.start()
    question = b""
    while b"[y/N]" not in question:
        question += os.read(started.terminal, 4096)
    time.sleep(0.2)
    os.write(started.terminal, typed.encode())
    assert started.ended()[0] == status
    assert not any("launch" in call for call in stage.calls)


def test_a_killed_laptop_leaves_a_machine_that_ends_by_itself(stage):
    stage.faults(hang_in_run=1)
    started = stage.start("--yes", "--max-hours", "2")
    stage.hanging()
    os.kill(started.child, signal.SIGKILL)
    started.close()
    assert started.ended()[0] == -signal.SIGKILL and stage.alive
    task = json.loads(Path("results/rented/small/task.yaml").read_text())
    assert task["resources"]["autostop"] == {"idle_minutes": 120, "down": True, "wait_for": "none"}
    assert "setup" not in task, "SkyPilot sets the longest life after setup"


def refused(capsys, *arguments: str) -> str:
    assert main([*RENT, *arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "said"), BESIDE["what cannot work is said before anything is rented"])
def test_what_cannot_work_is_said_before_anything_is_rented(stage, capsys, arguments, said):
    assert said in refused(capsys, *arguments)
    assert not any("launch" in call for call in stage.calls)


def test_without_skypilot_the_line_says_how_to_install_it(stage, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(stage.folder))
    assert "sh envs/extra.sh sky" in refused(capsys, "--yes")


def task_of(capsys, *arguments: str) -> tuple[dict, str]:
    assert main([*RENT, "--dry-run", *arguments]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def test_a_dry_run_prints_the_task_and_the_price_and_needs_no_skypilot(stage, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(stage.folder))
    task, price = task_of(capsys, "--spot", "--infra", "gcp/us-central1", "--max-hours", "2")
    assert task["resources"]["infra"] == "gcp/us-central1" and task["resources"]["use_spot"] is True
    assert stage.calls == []
    usd = hardware_rows()["L4"].cheapest.usd_per_hour
    sheet = f"about {usd:.2f} USD an hour, at most {4 * usd:.2f} USD in all (on demand, config/prices.csv: "
    assert sheet in task_of(capsys)[1]
    task, price = task_of(capsys, "--on", "TPU v2", "--config", "devices={gpu: {kind: tpu, replicas: 8}}")
    assert "about 4.50 USD an hour, at most 18.00 USD in all (on demand, config/prices.csv: GCP v2-8" in price
    assert task["resources"]["accelerators"] == "tpu-v2-8" and task["resources"]["infra"] == "gcp"
    assert task["resources"]["accelerator_args"] == {"runtime_version": "tpu-ubuntu2204-base"}


def test_the_task_sends_the_study_and_each_environment_that_its_backends_need(stage, capsys):
    own = "workloads={mnist_cnn: {backend: [tensorflow, jax, torch]}}"
    more = ("devices={gpu: {kind: gpu, replicas: 2}}", "records=results/other", "run_on=cpu")
    task = task_of(capsys, "--config", own, *more)[0]
    sent = json.loads(re.search(r"printf %s '(.*)' >", task["run"])[1])
    assert sent["study"] == "small" and "records" not in sent and "run_on" not in sent
    assert sent["data"]["sources"] == {"mnist": "standin"}, "each dataset from the source that is read here"
    assert task["run"].splitlines()[-1] == "sh envs/rented.sh gpu gpu torch"
    assert task["resources"]["accelerators"] == "L4:2", "as many as the study's device has replicas"
    tpu = ["--on", "v6e-1x1", "--config", own, "devices={gpu: {kind: tpu}}"]
    assert task_of(capsys, *tpu)[0]["run"].splitlines()[-1] == "sh envs/rented.sh tpu tpu jax-tpu"


def test_a_training_script_is_looked_at_on_the_machine_and_measured_in_its_number_format(stage, capsys):
    Path("train.py").write_text("import torch\nloss.backward()\n")
    keep(read_address("train.py"), Found("torch", 64, 512, 5, precision="single"))  # as if it was looked at here
    assert main(["rent", "train.py", "--on", "RTX 4090", "--dry-run"]) == 0
    script = json.loads(capsys.readouterr().out)["run"]
    assert '"module": "train.py"' in script and '"precision": ["tf32"]' in script
    assert script.splitlines()[-1] == "SCRIPT=train.py sh envs/rented.sh gpu torch"
