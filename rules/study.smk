# The study that this call is about: config checked, devices found, data sources decided, folder locked.
from whichdevice.code_hash import code_hash
from whichdevice.config.load import write_study
from whichdevice.locks import study_lock
from whichdevice.measuring.cut import tell_cut
from whichdevice.measuring.request import DATASETS
from whichdevice.planning.clock import from_the_future, set_to_now
from whichdevice.planning.closing import closing_line, lost_line
from whichdevice.planning.job_errors import show_job_errors
from whichdevice.planning.outdated import replaced_line
from whichdevice.planning.study_plan import plan_study

PLAN = or_exit(plan_study, config, workflow.is_main_process)
for note in PLAN.notes() if workflow.is_main_process else []:
    print(note, file=sys.stderr)
if workflow.is_main_process:
    show_job_errors(logger)
ROOT = PLAN.study.root
CONFIG = f"{ROOT}/config.yaml"
STUDY = PLAN.study.model_dump(mode="json")  # as a parameter: what depends on the config runs again with it
CPU_ENVIRONMENT = f"{workflow.basedir}/envs/cpu.yaml"


def of_profile(name, wildcards, **job):
    """What the profile's default-resources say of a resource that a run's device leaves out."""
    default = workflow.resource_settings._parsed_default_resources.get(name).evaluate(wildcards, **job).value
    return 0 if default is None and name == "disk_mb" else default  # of a size Snakemake takes a number alone


wildcard_constraints:
    device=r"[^/]+",
    workload=r"[^/]+",
    topology=r"[a-z0-9]+-[0-9x]+",
    program=r"[a-z0-9_]+-b\d+[^/]*",
    cell=r"[^/]+",
    repeat=r"\d+",
    name=r"[^/]+",
    source=r"tfds|files|standin",
    figure=r"[^/]+",


# The resolved config is written here and not by a rule: a rule that has to run would hide from Snakemake whether
# the runs below it have to, and every run would hang below it.
onstart:
    or_exit(study_lock, Path(ROOT))  # held until this process ends
    if FUTURE := from_the_future(Path(ROOT), DATASETS):
        set_to_now(FUTURE)
        print("Results from the future now have the present as their time: was this clock set back?", file=sys.stderr)
    or_exit(write_study, PLAN.study, Path(CONFIG))
    # Killed between a record's writing and Snakemake's note of it, a job is repeated; unless forced, its record is kept.
    FORCED = workflow.dag_settings.forceall or workflow.dag_settings.forcerun or workflow.dag_settings.forcetargets
    MEASURED = [job for job in workflow.dag.needrun_jobs() if job.rule.name == "measure"]
    tell_cut(
        [
            job.output.record
            for job in MEASURED
            if not FORCED and workflow.async_run(workflow.persistence.incomplete(job))
        ]
    )
    if REPLACED := replaced_line(PLAN.study, [job.output.record for job in MEASURED]):
        print(REPLACED, file=sys.stderr)


onsuccess:
    if closing_line(PLAN):
        print(closing_line(PLAN), file=sys.stderr)
    if Path(f"{ROOT}/report.html").is_file():
        print(f"Report: {ROOT}/report.html", file=sys.stderr)


onerror:
    if lost_line(PLAN):
        print(lost_line(PLAN), file=sys.stderr)
    print(f"The study stopped; finished runs are kept. Logs: {ROOT}/logs", file=sys.stderr)
