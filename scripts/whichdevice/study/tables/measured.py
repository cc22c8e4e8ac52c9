"""Select the runs that may enter a ratio, each with the one number that it counts with, its machine and its session.

A record holds no host name: machines are distinguished by processor, memory and a hash of the system's own id, which an
update of the kernel does not change; else by the operating system, so that two of a kind look like one. A
session ends where a machine measured nothing for more than an hour.
"""

import pandas as pd

from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.decide.rows import OPERATIONS

GAP = pd.Timedelta(hours=1)
ONE = "one machine, one session"
WORK = ["workload", "precision", "sequence_length"]  # what devices are compared on, each with its own best settings
KEPT_DIGITS = 1e-4
DOING = {"predict": ", predicting", "generate": ", generating"}  # in `model`


def located(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `runs` with columns `machine` and `session`, equal numbers for the same one."""
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
    return rows.assign(machine=machine, session=turns.cumsum())


def settings(groups: pd.Series, *sides: pd.DataFrame) -> pd.Series:
    """Return, for each group, the machines and sessions of all `sides`, whose rows are in the order of `groups`."""
    keys = pd.concat([pd.Series(groups.to_numpy()) for _ in sides], ignore_index=True)
    conditions = pd.concat([side.set_axis(["machine", "session"], axis="columns") for side in sides], ignore_index=True)
    counts = conditions.groupby(keys, sort=False).nunique()
    texts = {pair: setting_text(*pair) for pair in set(zip(counts["machine"], counts["session"], strict=True))}
    return pd.Series([texts[pair] for pair in zip(counts["machine"], counts["session"], strict=True)], counts.index)


def setting_text(machines: int, sessions: int) -> str:
    """`one machine, one session`, or how many."""
    first = "one machine" if machines <= 1 else f"{machines} machines"
    return f"{first}, {'one session' if sessions <= 1 else f'{sessions} sessions'}"


def measured_values(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows of `runs` that were timed, with column `value`: throughput, or TFLOP/s for products of matrices.

    Columns `machine` and `session` say where and when each was measured, `model` what: two workloads of one name, such
    as a model file of another width on another machine, are never compared.
    """
    runs = located(runs)  # a failed run is part of a session too
    good = timed(runs).copy()
    good["model"] = _model(good)
    good["value"] = good["throughput"].where(good["unit"] != "product", good["tflops"])
    return good[good["value"] > 0]


def timed(runs: pd.DataFrame) -> pd.DataFrame:
    """The measured runs whose speed counts: those that ended well, and those that ran out of time later.

    A run tells its steady state once that is whole, before it learns; a mean without slow learners is too good.
    """
    late = (runs["status"] == "timed_out") & (runs["throughput"] > 0)
    return runs[(runs["evidence"] == "measured") & ((runs["status"] == "ok") | late)]


def _model(runs: pd.DataFrame) -> pd.Series:
    """The workload file's name, whether it predicts or generates, its weights and the operations of an example.

    They are the same on every device and backend. Operations that layers hide are counted on one backend and not on
    another, and then name no model.
    """
    name = runs["module"].fillna("").str.rsplit("/", n=1).str[-1].astype("object")
    flops = (runs["flops_per_step"] / runs["batch_size"].astype("float64")).where(~runs["unit"].isin(OPERATIONS)) / 1e6
    flops = flops.where(runs["flops_counted"].isna() | (runs["flops_counted"] == WHOLE_COUNT))
    alike = [runs[column] for column in ("workload", "module", "mode", "parameters", "sequence_length")]
    first = flops.groupby(alike, dropna=False).transform("first")
    flops = flops.where(
        (flops / first - 1).abs() > KEPT_DIGITS, first
    )  # a record may lack it, a table holds six digits
    name = name + runs["mode"].astype("object").map(DOING).fillna("").astype("object")
    return name + _formatted(runs["parameters"], ", {:,.0f} weights") + _formatted(flops, ", {:.4g} MFLOP an example")


def _formatted(values: pd.Series, text: str) -> pd.Series:
    return values.map(text.format, na_action="ignore").astype("object").fillna("")


def at_common_share(good: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each model, format and length at the largest share of data that most devices measured."""
    one_work = [*WORK, "model"]
    work = [good[name] for name in one_work]
    devices = good.groupby([*work, good["fraction"]], dropna=False, sort=False)["device"].transform("nunique")
    most = good[devices == devices.groupby(work, dropna=False, sort=False).transform("max")]
    return most[most["fraction"] == most.groupby(one_work, dropna=False, sort=False)["fraction"].transform("max")]


def disturbed(runs: pd.DataFrame) -> pd.Series:
    """Whether the machine disturbed a run: the process that was timed, or the one that learned, where these are two."""
    return runs["disturbed"].fillna(False) | runs["learning_disturbed"].fillna(False)


def without_rehearsals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without virtual replicas on one CPU, which rehearse a program and show no speed."""
    return rows[~is_rehearsal(rows)]


def is_rehearsal(rows: pd.DataFrame) -> pd.Series:
    """True for rows of a CPU with several replicas; needs columns `kind` and `replicas`."""
    return (rows["kind"] == "cpu") & (rows["replicas"].fillna(1) > 1)


def joined_sources(*columns: pd.Series) -> str | None:
    """Return where the data of some rows came from, each source once."""
    names = dict.fromkeys(str(name) for column in columns for name in column.dropna().unique())
    return " + ".join(names) or None


def enough_repeats(counts: pd.Series, choice: pd.Series | list[pd.Series] | None = None) -> pd.Series:
    """True where a cell has enough good repeats to be chosen as the best one: of all cells, or of each `choice`.

    That is half of the most, and two where any has two: the mean of a cell whose other repeats failed may be lucky, and
    leaves too few pairs to judge it by.
    """
    most = counts.max() if choice is None else counts.groupby(choice, dropna=False).transform("max")
    return (2 * counts >= most) & ((counts >= 2) | (most < 2))
