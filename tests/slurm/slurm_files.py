"""The files that a throw-away Slurm reads: nodes, partitions, accounting."""

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
"""
NODE = """
NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=16000 {gres} State=UNKNOWN
PartitionName={name} Nodes={name} Default={default} MaxTime=INFINITE State=UP
"""
ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass=socket={folder}/munge.socket
AccountingStorageTRES=gres/gpu,gres/tpu
"""
NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n"
DATABASE = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


def slurm_files(folder: Path, accounting: bool) -> None:
    """Write everything but the accounting daemon's own file."""
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
    if accounting:
        (folder / "slurmdbd.port").write_text(str(port := _free_port()), encoding="ascii")
        text += ACCOUNTING.format(folder=folder, port=port)
    else:
        text += NO_ACCOUNTING
    (folder / "slurm.conf").write_text(text, encoding="utf-8")
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n", encoding="utf-8")
    devices = "NodeName=gpu Name=gpu Type=t4 File=/dev/null\nNodeName=tpu Name=tpu Type=v2 Count=8\n"
    (folder / "gres.conf").write_text(f"AutoDetect=off\n{devices}", encoding="utf-8")


def accounting_files(folder: Path) -> int:
    """Write the accounting daemon's file; the port that its database shall have."""
    port = (folder / "slurmdbd.port").read_text(encoding="ascii")
    facts = {"folder": folder, "host": _host(), "user": psutil.Process().username(), "port": port}
    path = folder / "slurmdbd.conf"
    path.touch(0o600)
    path.write_text(DATABASE.format(**facts, database_port=(database_port := _free_port())), encoding="utf-8")
    return database_port


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
