# What a failed job leaves. Scripts replace update() files atomically: the one that lies there is whole, earlier or new.
# Snakemake 9 would put the earlier one back, remove a first one, and note the failed job as done either way.
from snakemake.io import is_flagged
from snakemake.jobs import Job
from snakemake.persistence import FileBackupMixin, PersistenceBase


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


def measure_what_is_outdated(noted=PersistenceBase.has_metadata, changed=PersistenceBase.params_changed):
    """A record from another machine or checkout, of which Snakemake has no note, says itself what was measured."""

    def outdated(persistence, job):
        unknown = job.rule.name == "measure" and not noted(persistence, job)
        return unknown and PLAN.is_outdated(RUN.format(**job.wildcards_dict))

    PersistenceBase.has_metadata = lambda persistence, job: noted(persistence, job) or outdated(persistence, job)
    PersistenceBase.params_changed = lambda persistence, job, file=None: (
        outdated(persistence, job) or changed(persistence, job, file)
    )


keep_what_failed_jobs_leave()
measure_what_is_outdated()
