"""The files that a throw-away Slurm reads: nodes and partitions."""

import secrets
import socket
from pathlib import Path

import psutil

CLUSTER = "throwaway"
# Name of node and partition: what the node has; no device file, so nothing is really there.
NODES = {"cpu": "", "gpu": "gpu:t4:1", "tpu": "tpu:v2:8"}

SLURM = """
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu,tpu
ReturnToService=2
SlurmdTimeout=10
MinJobAge=600
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
"""
NODE = """
NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=16000 {gres} State=UNKNOWN
PartitionName={name} Nodes={name} Default={default} MaxTime=INFINITE State=UP
"""


def slurm_files(folder: Path) -> None:
    """Write them all."""
    host, user = _host(), psutil.Process().username()
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(1024))
    text = SLURM.format(cluster=CLUSTER, host=host, user=user, folder=folder, controller_port=_free_port())
    for name, gres in NODES.items():
        default = "YES" if name == "cpu" else "NO"
        gres = f"Gres={gres}" if gres else ""
        text += NODE.format(name=name, host=host, port=_free_port(), gres=gres, default=default)
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
