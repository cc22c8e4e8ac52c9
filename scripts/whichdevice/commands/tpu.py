"""Rent a TPU VM for the study's TPU runs and delete it afterwards: `tpu run`; also `up`, `ssh`, `list` and `down`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichdevice.errors import StudyError

if TYPE_CHECKING:
    from whichdevice.cloud.order import Order
    from whichdevice.cloud.tpu_api import Alive, TpuApi
    from whichdevice.config.model import Call

SUMMARIES = {
    "run": "make a machine, measure the study's TPU runs there, bring the records back, delete it",
    "up": "make a machine and leave it there, until `tpu down` or the end of its life",
    "ssh": "open a shell on a machine that is there",
    "list": "what is alive, how old it is and about what it has cost",
    "down": "delete what is alive",
}
STOPPED = 130  # exit status of a program that Ctrl-C ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for name, summary in SUMMARIES.items():
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("--configfile", type=Path, default=Path("config/config.yaml"), help="the study's config")
        action.add_argument(
            "--config", nargs="*", default=[], metavar="KEY=VALUE", help="e.g. 'tpu_vm={zone: us-central1-f}'"
        )
        if name in ("run", "up"):
            action.add_argument("--dry-run", action="store_true", help="print what would be made and its price")
        if name != "ssh" and name != "list":
            action.add_argument("--yes", action="store_true", help="do not ask")
        if name in ("ssh", "down"):
            action.add_argument("name", nargs="?", help="of one machine")
        if name == "run":
            action.add_argument(
                "arguments", nargs="*", help="after --: for Snakemake there, e.g. -- --forcerun measure"
            )


def run(args: argparse.Namespace) -> int:
    """Do it; the exit status."""
    from whichdevice.cloud.stopping import StoppedError

    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # logs hold any bytes
    try:
        return {"run": _run, "up": _up, "ssh": _ssh, "list": _list, "down": _down}[args.action](args)
    except StoppedError:
        say("Stopped.")
        return STOPPED


def say(line: str) -> None:
    """Tell the person; a terminal that is gone must not keep a machine from being deleted."""
    try:
        print(line, flush=True)
    except (OSError, ValueError):
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123  # for the rest of this process


def _run(args: argparse.Namespace) -> int:
    from whichdevice.cloud.consent import agree
    from whichdevice.cloud.run_log import RunLog
    from whichdevice.cloud.shipping import files_left_behind
    from whichdevice.cloud.tpu_run import check_fits, plan_errand, run_on_tpu
    from whichdevice.commands.plan import workflow_call

    errand = plan_errand(_values(args), args.arguments, Path.cwd(), args.configfile)
    order = _order(errand.call, args.dry_run)
    check_fits(errand, order)
    here = len(errand.given) - errand.outdated
    old = f", {errand.outdated} of other settings, code or data are measured again" if errand.outdated else ""
    for line in [
        *_offer(order),
        f"On it: {len(errand.runs) - here} TPU runs of study {errand.study.study}, {here} are here{old}.",
        *files_left_behind(errand.study, errand.folder),
    ]:
        say(line)
    if args.dry_run:
        return 0
    api = _api()
    agree("Make it, measure, and delete it again?", args.yes)
    path = Path(errand.study.root) / "logs" / "tpu" / f"{order.name}.log"
    with RunLog(path, order, say) as log:
        run_on_tpu(api, order, errand, log.say, log.take)
    say(f"Now: {workflow_call(args, 'all')}, which draws them. Log: {path}")
    return 0


def _up(args: argparse.Namespace) -> int:
    from whichdevice.cloud.consent import agree
    from whichdevice.cloud.renting import rented

    order = _order(_call(args), args.dry_run)
    for line in _offer(order):
        say(line)
    if args.dry_run:
        return 0
    api = _api()
    agree("Make it?", args.yes)
    with rented(api, order, say, keep=True):
        say(f"python -m whichdevice tpu ssh {order.name}")
        say(f"It costs money until: python -m whichdevice tpu down {order.name}")
    return 0


def _ssh(args: argparse.Namespace) -> int:
    from whichdevice.cloud.machine import address_of
    from whichdevice.cloud.ssh import Ssh
    from whichdevice.cloud.stopping import Stopping

    call = _call(args)
    api, found = _found(call)
    machine = _one([one for one in found if not one.queued], args.name)
    vm = call.tpu_vm
    keys = _keys(machine.name, vm.ssh_key)
    node = api.node(machine.path)
    if node is None:
        raise StudyError(f"{machine.name} is gone")
    strict = keys.known_hosts.is_file() and keys.known_hosts.stat().st_size > 0
    ssh = Ssh(address_of(node, vm.external_ip), vm.ssh_user, vm.ssh_port, keys, strict, Stopping())
    return ssh.shell(None)


def _list(args: argparse.Namespace) -> int:
    from whichdevice.cloud.leftovers import table

    call = _call(args)
    _, found = _found(call)
    if not found:
        say(f"Nothing is alive in {', '.join(call.tpu_vm.zone)} with this config's labels.")
        return 0
    for line in table(found):
        say(line)
    say("Money is an estimate: hours since it was asked for, at the price on demand.")
    return 0


def _down(args: argparse.Namespace) -> int:
    from whichdevice.cloud.consent import agree
    from whichdevice.cloud.leftovers import Removal, table
    from whichdevice.cloud.stopping import stopping

    call = _call(args)
    api, found = _found(call)
    if args.name:
        found = [one for one in found if one.name == args.name]
    if not found:
        named = f" named {args.name}" if args.name else ""
        say(f"Nothing{named} is alive in {', '.join(call.tpu_vm.zone)} with this config's labels.")
        return 0
    for line in table(found):
        say(line)
    agree(f"Delete {'it' if len(found) == 1 else f'all {len(found)}'}?", args.yes)
    with stopping(say) as state:
        Removal(api, say, state).remove(found)
    return 0


def _values(args: argparse.Namespace) -> dict[str, Any]:
    from whichdevice.commands.plan import merged
    from whichdevice.config.yaml_file import check_yaml

    return merged(check_yaml(args.configfile), args.config)


def _call(args: argparse.Namespace) -> "Call":
    from whichdevice.config.load import load_study

    return load_study(_values(args), str(args.configfile))


def _order(call: "Call", dry_run: bool) -> "Order":
    from whichdevice.cloud.order import Order
    from whichdevice.cloud.tpu_api import project_of

    project = call.tpu_vm.project or "of the login" if dry_run else project_of(call.tpu_vm.project)
    return Order.of(call.tpu_vm, project, call.study)


def _api() -> "TpuApi":
    """The API, its library and the credentials at hand, before anybody is asked to pay."""
    from whichdevice.cloud.tpu_api import TpuApi

    api = TpuApi()
    assert api.client is not None
    return api


def _found(call: "Call") -> "tuple[TpuApi, list[Alive]]":
    from whichdevice.cloud.leftovers import leftovers
    from whichdevice.cloud.tpu_api import TpuApi, project_of

    api = TpuApi()
    return api, leftovers(api, call.tpu_vm, project_of(call.tpu_vm.project))


def _one(found: "list[Alive]", name: str | None) -> "Alive":
    named = [one for one in found if name in (None, one.name)]
    if len(named) == 1:
        return named[0]
    if not named:
        raise StudyError(f"no machine {name or ''} is alive; `tpu list` shows what is".replace("  ", " "))
    raise StudyError(f"tpu ssh: which? {', '.join(one.name for one in named)}")


def _keys(name: str, own: str | None) -> Any:
    from whichdevice.cloud.keys import Keys

    keys = Keys(name, own)
    if not keys.private.is_file():
        raise StudyError(f"{name} was made elsewhere and its key is not here: gcloud compute tpus tpu-vm ssh {name}")
    return keys


def _offer(order: "Order") -> list[str]:
    from whichdevice.cloud.offer import offer_lines

    return offer_lines(order)
