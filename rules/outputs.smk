# What a failed job leaves. Scripts replace update() files atomically: the one that lies there is whole, earlier or new.
# Snakemake 9 would put the earlier one back, remove a first one, and note the failed job as done either way.
from snakemake.io import is_flagged
from snakemake.jobs import Job
from snakemake.persistence import FileBackupMixin, PersistenceBase

from whichdevice.planning.compile_plan import may_compile_now
from whichdevice.planning.export_plan import may_export_now


def keep_what_failed_jobs_leave(ended=Job.postprocess, note=PersistenceBase.finished, remove=Job.cleanup):
    """Leave update() files alone; the mark of a failed job as incomplete stays, so that the next call repeats it."""
    failed = set()

    def replaces(job):
        return any(is_flagged(file, "update") for file in job.output)

    async def postprocess(job, *arguments, error=False, **named):
        (failed.add if error and replaces(job) else failed.discard)(job)  # it may be a second try
        await ended(job, *arguments, error=error, **named)

    async def finished(persistence, job):
        if job not in failed:
            await note(persistence, job)

    async def cleanup(job, kept):
        if not replaces(job):
            await remove(job, kept)

    Job.postprocess, Job.cleanup, PersistenceBase.finished = postprocess, cleanup, finished
    FileBackupMixin.backup_output = lambda persistence, path: None
    FileBackupMixin.restore_output = lambda persistence, path: False


def outdated_records(noted):
    """Whether a job's record itself says that the job would give another one, beside what Snakemake's notes say."""

    def outdated(persistence, job):
        if job.rule.name == "measure":  # a record from another machine or checkout, of which Snakemake has no note
            return not noted(persistence, job) and PLAN.is_outdated(RUN.format(**job.wildcards_dict))
        if PLAN.merged.fetched:  # which is shown as it was fetched
            return False
        if job.rule.name == "compile":
            return may_compile_now(PLAN.study, job.output.record)
        return job.rule.name == "export" and may_export_now(PLAN.study, job.wildcards.workload)

    return outdated


def repeat_what_is_outdated(noted=PersistenceBase.has_metadata, changed=PersistenceBase.params_changed):
    """Such a job runs as if its parameters had changed."""
    outdated = outdated_records(noted)
    PersistenceBase.has_metadata = lambda persistence, job: noted(persistence, job) or outdated(persistence, job)
    PersistenceBase.params_changed = lambda persistence, job, file=None: (
        outdated(persistence, job) or changed(persistence, job, file)
    )


keep_what_failed_jobs_leave()
repeat_what_is_outdated()
