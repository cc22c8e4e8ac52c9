# The study that this call is about, worked out from the config alone; the planner's functions are tested without Snakemake.
import os
import signal
import shlex

from whichdevice.study.config.load import load_study, write_study
from whichdevice.base.locks import StudyLock
from whichdevice.study.request import DATASETS
from whichdevice.study.planning.sources import prefer_this_environment, require_writable
from whichdevice.study.planning.progress import (
    StudyProgress,
    answer_lines,
    closing_lines,
    shows_progress,
    stopped_lines,
)
from whichdevice.study.planning.study_plan import plan_study
from whichdevice.study.remote.records import bring_records
from whichdevice.base.terminal import wrapped


def shown(file, caption, category, **labels):
    """A file of the study's results that `snakemake --report` shows."""
    return report(f"{ROOT}/{file}", caption=f"{CAPTIONS}/{caption}.rst", category=category, labels=labels)


def run_script(name, options=""):
    """Shell command of a script that ends with this process, however that ends. No parameter: a moved folder stays done."""
    command = shlex.join(["python", f"{workflow.basedir}/scripts/{name}.py", CONFIG]) + f" {options}"
    command = command.replace("{", "{{").replace("}", "}}")
    return f"exec {command} --starter {os.getpid()} --log {{log:q}} {{output.record:q}}"


def asked(*keys):
    """What the config has under these keys, as parameters: an edit of one of them runs the rule again, of another not."""
    return {key.replace(".", "_"): PLAN.key(key) for key in keys}


prefer_this_environment()
if "--lint" not in sys.argv:
    or_exit(require_writable, Path.cwd())
WATCHED = shows_progress(sys.argv)
if WATCHED:  # a run, and not one of its jobs: reading these files for anything else changes nothing
    for line in wrapped(or_exit(bring_records, or_exit(load_study, config))):
        print(line, file=sys.stderr)
PLAN = or_exit(plan_study, config)
ROOT = PLAN.study.root
LOCK = StudyLock(Path(ROOT))
CONFIG = f"{ROOT}/config.yaml"
# Rules have no `benchmark`, since Snakemake would make again what was brought or copied here without that file.
CPU_ENVIRONMENT = f"{workflow.basedir}/envs/cpu.yaml"
CAPTIONS = f"{workflow.basedir}/docs/captions"
# For a pod, which config.yaml does not reach.
STUDY_TEXT = "" if Path(CONFIG).is_file() else f" --study {shlex.quote(PLAN.study.model_dump_json())}"
PROGRESS = StudyProgress().listen(logger if WATCHED else None)


wildcard_constraints:
    repeat=r"\d+",
    key=r"[0-9a-f]{12}",
    source=r"tfds|files|standin",
    recipe=r"[0-9a-f]{8}",


# The resolved config is written here and not by a rule: a rule that has to run would hide from Snakemake whether
# the runs below it have to, and every run would hang below it.
onstart:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # `whichdevice study` had it end this process at once
    or_exit(LOCK.take)
    or_exit(write_study, PLAN.study, Path(CONFIG))
    or_exit(PLAN.write_keys)
    or_exit(PLAN.end_future)
    print(*wrapped(PLAN.notes()), sep="\n", end="\n" * bool(PLAN.notes()), file=sys.stderr)
    PROGRESS.begin()


onsuccess:
    PROGRESS.end()
    print(*answer_lines(ROOT), *closing_lines(PLAN), sep="\n", file=sys.stderr)


onerror:
    PROGRESS.end()
    print(*stopped_lines(PLAN), sep="\n", file=sys.stderr)
