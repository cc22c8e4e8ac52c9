"""`tpu run`: a machine for the `tpu` target and for no longer."""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from whichdevice.cells import Run
from whichdevice.cloud import remote_run, shipping
from whichdevice.cloud.bring_back import Brought, Home
from whichdevice.cloud.lifetime import MAY_DELETE
from whichdevice.cloud.machine import Machine, Say
from whichdevice.cloud.order import Order
from whichdevice.cloud.renting import rented
from whichdevice.cloud.ssh import Ssh, quoted
from whichdevice.cloud.stopping import StoppedError
from whichdevice.cloud.tpu_api import TpuApi
from whichdevice.config.model import Call, Study
from whichdevice.errors import StudyError
from whichdevice.planning.study_plan import StudyPlan, plan_study

STUDY_FILE = "tpu-study.yaml"  # the config as the machine gets it
RUN_FILE = ".tpu-run.sh"
RECORDS_OUT = Path(__file__).with_name("records_out.sh")
SECOND = 1  # signals that bringing records back outlasts


@dataclass
class Errand:
    """A study to be measured on a TPU VM, all of it checked."""

    call: Call
    study: Study  # with the source of each dataset decided
    runs: list[Run]
    values: dict[str, Any]  # the config as written
    arguments: Sequence[str]  # further ones for Snakemake there
    folder: Path  # the project's
    config: str = field(default="")
    given: dict[str, str] = field(default_factory=dict)
    outdated: int = 0  # of those given: of other settings, code or data, which the machine finds out as well

    @property
    def devices(self) -> list[str]:
        """The study's TPUs."""
        return sorted({run.cell.device for run in self.runs})


def plan_errand(values: dict[str, Any], arguments: Sequence[str], folder: Path, config: Path | None = None) -> Errand:
    """Check everything that can be checked without a machine; raises StudyError. `config`: the file of the values."""
    shipping.check_project(folder)
    plan: StudyPlan = plan_study({**values, "run_on": "all"})
    runs = [run for run in plan.wanted() if plan.study.devices[run.cell.device].kind == "tpu"]
    if not runs:
        raise StudyError("tpu run: the study has no runs on a TPU; add a device of kind tpu, or widen `only`")
    errand = Errand(plan.call, plan.study, runs, values, arguments, folder)
    bucket = plan.call.storage.bucket
    errand.config = shipping.shipped_config(values, plan.study, bucket)
    shipping.own_modules(plan.study, folder)
    errand.given = shipping.present_records(plan.study, runs, folder)
    errand.outdated = sum(plan.is_outdated(run.path) for run in runs)
    return errand


def check_fits(errand: Errand, order: Order) -> None:
    """Raise StudyError unless the machine has as many replicas as the study's TPUs ask for."""
    for name in errand.devices:
        device = errand.study.devices[name]
        if device.replicas > order.kind.replicas:
            raise StudyError(
                f"devices.{name} has {device.replicas} replicas and a {order.kind.name} {order.kind.replicas}: "
                "change one of them (tpu_vm.accelerator_type)"
            )
        if device.hardware is not None and device.hardware != order.kind.hardware:
            raise StudyError(
                f"devices.{name}.hardware is {device.hardware}, and a {order.kind.name} is a {order.kind.hardware}: "
                "change one of them, or name two devices"
            )


def run_on_tpu(api: TpuApi, order: Order, errand: Errand, say: Say, log: Callable[[bytes], None]) -> None:
    """Make the machine, measure, bring the records home, delete the machine. Raises StudyError or StoppedError."""
    root = Path(errand.study.root)
    home = Home(root, order.name, set(errand.devices), _by_run(errand))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whichdevice-")))
        archive = stack.enter_context(tempfile.TemporaryFile(dir=scratch))
        _pack(errand, archive, scratch)
        machine, ssh = stack.enter_context(rented(api, order, say))
        _warn_if_immortal(ssh, say)
        say("Sending the project ...")
        remote_run.send(ssh, archive)
        remote_run.start(ssh, remote_run.run_script(order.vm.environment, _snakemake(errand)))
        say("Installing the software stack and measuring; its log follows.")
        _measure(machine, ssh, home, log, say)


def _by_run(errand: Errand) -> dict[str, str]:
    """The checksums of the records that go along, by run."""
    paths = {run.record(errand.study): run.path for run in errand.runs}
    return {paths[record]: checksum for record, checksum in errand.given.items()}


def _measure(machine: Machine, ssh: Ssh, home: Home, log: Callable[[bytes], None], say: Say) -> None:
    """Follow the study and bring records home meanwhile and at its end, however it ends."""

    def sync() -> None:
        try:
            _bring(ssh, home, only_new=True)
        except StudyError as error:
            say(f"{error}; trying again later")

    follower = remote_run.Follower(ssh, log, sync, machine.why_gone, machine.deadline)
    try:
        follower.follow()
    except remote_run.MachineGoneError:
        raise  # nothing can be brought from there
    except (StudyError, StoppedError) as error:
        if isinstance(error, StoppedError):
            say("Stopping; records come back first. Once more gives them up.")
            _quietly(lambda: remote_run.end(ssh, SECOND), say)
        _quietly(lambda: _tell(_bring(ssh, home, only_new=False), home, say), say)
        raise
    brought = _bring(ssh, home, only_new=False)
    _tell(brought, home, say)
    if brought.refused:
        raise StudyError(f"{len(brought.refused)} records were not taken, see above; run the same command again")


def _quietly(work: Callable[[], None], say: Say) -> None:
    """What must not hide the error that came before."""
    try:
        work()
    except (StudyError, StoppedError) as error:
        say(f"Records were not brought back: {error}")


def _tell(brought: Brought, home: Home, say: Say) -> None:
    for line in home.lines(brought):
        say(line)


def _bring(ssh: Ssh, home: Home, only_new: bool) -> Brought:
    folder = f"{remote_run.FOLDER}/project/{home.root.as_posix()}"
    settings = f"ONLY_NEW={'yes' if only_new else ''}\nDEVICES={quoted(' '.join(sorted(home.devices)))}\n"
    script = settings + RECORDS_OUT.read_text(encoding="utf-8")
    remote = f"[ ! -d {quoted(folder)} ] || {{ cd {quoted(folder)} && sh -c {quoted(script)}; }}"
    return home.bring(lambda take: ssh.stream(remote, "bringing records back", take, merged=False, after=SECOND))


def _snakemake(errand: Errand) -> list[str]:
    return ["--cores", "1", "tpu", "--configfile", STUDY_FILE, *errand.arguments]


def _pack(errand: Errand, into: IO[bytes], scratch: Path) -> None:
    folder = errand.folder
    names = dict.fromkeys([*shipping.project_files(folder), *shipping.own_modules(errand.study, folder)])
    files = {name: folder / name for name in names}
    files |= {path: folder / path for path in errand.given}
    files |= _artefacts(errand)
    files |= shipping.last_commit(folder, scratch)
    shipping.pack(files, {STUDY_FILE: errand.config}, into)
    into.seek(0)


def _artefacts(errand: Errand) -> dict[str, Path]:
    """The files beside the records that go along: a record without them is no whole run."""
    found: dict[str, Path] = {}
    for record in errand.given:
        beside = (errand.folder / record).parent
        found |= {
            str(path.relative_to(errand.folder)): path
            for path in sorted(beside.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }
    return found


def _warn_if_immortal(ssh: Ssh, say: Say) -> None:
    """Say so if the machine may not delete itself, while somebody is there to mend it."""
    told = ssh.run(f"cat {MAY_DELETE} 2>/dev/null || true", "asking whether the machine can end itself").strip()
    if told == "no":
        say(
            "WARNING: the machine's service account may not delete it, so tpu_vm.max_hours holds only while this "
            "program runs: give it the role roles/tpu.admin (docs/cloud.md)."
        )
    elif told != "yes":
        say("Whether the machine may delete itself could not be checked; look at `tpu list` afterwards.")
