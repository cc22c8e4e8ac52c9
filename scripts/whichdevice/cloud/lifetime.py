"""The end that every machine carries in itself, for when nobody is left to delete it.

Neither version of the API that google-cloud-tpu 1.28 speaks (v2, v2alpha1) has a longest life for a TPU VM: Node,
SchedulingConfig and QueuedResource have no such field. What a queued request has, and gets, is a time after
which it makes nothing any more.
"""

from pathlib import Path

SCRIPT = Path(__file__).with_name("lifetime.sh")
MAY_DELETE = "/var/lib/whichdevice/may_delete"  # on the machine: yes, no or unknown


def startup_script(project: str, resource: str, hours: float) -> str:
    """The startup script of a machine that deletes `resource`, the API's name of what brought it, after some hours."""
    forced = f"{resource}?force=true" if "/queuedResources/" in resource else resource
    values = f"RESOURCE='{forced}'\nSECONDS_TO_LIVE={round(hours * 3600)}\nPROJECT='{project}'\n"
    shebang, _, rest = SCRIPT.read_text(encoding="utf-8").partition("\n")
    return f"{shebang}\n{values}{rest}"
