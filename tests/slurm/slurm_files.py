"""The files that a throw-away Slurm reads: nodes and partitions."""

import secrets
import socket
from pathlib import Path

import psutil
from beside import beside

CLUSTER = "throwaway"
# Name of node and partition: what the node has; no device file, so nothing is really there.
NODES = {"cpu": "", "gpu": "gpu:t4:1", "tpu": "tpu:v2:8"}

BESIDE = beside(__file__)


def slurm_files(folder: Path) -> None:
    """Write them all."""
    host, user = _host(), psutil.Process().username()
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(1024))
    text = BESIDE["slurm"].format(cluster=CLUSTER, host=host, user=user, folder=folder, controller_port=_free_port())
    for name, gres in NODES.items():
        default = "YES" if name == "cpu" else "NO"
        gres = f"Gres={gres}" if gres else ""
        text += BESIDE["node"].format(name=name, host=host, port=_free_port(), gres=gres, default=default)
    (folder / "slurm.conf").write_text(text, encoding="utf-8")
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n", encoding="utf-8")
    devices = "NodeName=gpu Name=gpu Type=t4 File=/dev/null\nNodeName=tpu Name=tpu Type=v2 Count=8\n"
    (folder / "gres.conf").write_text(f"AutoDetect=off\n{devices}", encoding="utf-8")


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
