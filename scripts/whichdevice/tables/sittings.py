"""On how many machines and in how many sittings the runs behind a ratio were measured, so that each ratio can say so.

A record holds no host name: machines are told apart by processor, memory and a hash of the system's own id, which an
update of the kernel leaves alone; without one by the operating system, so that two of a kind look like one. A sitting
ends where a machine measured nothing for more than an hour.
"""

import pandas as pd

from whichdevice.tables.columns import Column

SETTING = Column("text", "on how many machines, in how many sittings the runs behind the ratio were measured")
GAP = pd.Timedelta(hours=1)
ONE = "one machine, one sitting"


def located(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `runs` with columns `machine` and `sitting`, numbers that are alike where these are."""
    memory = (rows["host_memory"].astype("float64") / 2**30).round()
    alike = rows.groupby([rows["cpu"], memory, rows["operating_system"]], dropna=False, sort=False).ngroup()
    # Older records have none: they are taken for the first machine of their kind.
    identity = rows["machine_id"].fillna(rows["machine_id"].groupby(alike).transform("first"))
    system = rows["operating_system"].where(identity.isna())
    machine = rows.groupby([rows["cpu"], memory, identity, system], dropna=False, sort=False).ngroup()
    times = pd.DataFrame({"machine": machine, "started": pd.to_datetime(rows["started"], errors="coerce")})
    times["ended"] = pd.to_datetime(rows["ended"], errors="coerce").fillna(times["started"])
    times = times.sort_values(["machine", "started"], kind="stable")
    before = times.groupby("machine", sort=False)["ended"].cummax().groupby(times["machine"], sort=False).shift()
    turns = (times["started"] - before > GAP) | (times["machine"] != times["machine"].shift())
    return rows.assign(machine=machine, sitting=turns.cumsum())


def settings(groups: pd.Series, *sides: pd.DataFrame) -> pd.Series:
    """For each group: the machines and sittings of all `sides`, whose rows stand in the order of `groups`."""
    keys = pd.concat([pd.Series(groups.to_numpy()) for _ in sides], ignore_index=True)
    both = pd.concat([side.set_axis(["machine", "sitting"], axis="columns") for side in sides], ignore_index=True)
    counts = both.groupby(keys, sort=False).nunique()
    texts = {pair: told(*pair) for pair in set(zip(counts["machine"], counts["sitting"], strict=True))}
    return pd.Series([texts[pair] for pair in zip(counts["machine"], counts["sitting"], strict=True)], counts.index)


def told(machines: int, sittings: int) -> str:
    """`one machine, one sitting`, or how many."""
    first = "one machine" if machines <= 1 else f"{machines} machines"
    return f"{first}, {'one sitting' if sittings <= 1 else f'{sittings} sittings'}"
