# Kubernetes and Google Batch share no file system: a bucket carries the files, as Snakemake's default storage.
from whichdevice.planning.bucket_files import arrays_of, artefacts_of, bind_study, bring, files_to_send, share_results

DEFAULT_STORAGE = workflow.storage_settings.default_storage_provider is not None
HOME = DEFAULT_STORAGE and workflow.is_main_process  # where the study was started, not where a job runs


def carried(**files):
    """Files that a rule has only where a bucket carries them; elsewhere they lie beside its others."""
    return files if DEFAULT_STORAGE else {}


def bundle_options(input, output):
    """The archives of a job as options of its script."""
    named = {"--arrays": input.get("arrays") or [], "--artefacts": output.get("artefacts") or []}
    return [word for option, bundle in named.items() if bundle for word in (option, str(bundle))]


def bring_home(paths):
    """Fetch what the bucket has of these files and this machine lacks, or has only an earlier one of."""
    if HOME:
        or_exit(bring, {Path(path): workflow.inputfile(path).storage_object for path in paths}, not CLAIM.dry)


def other_artefacts():
    """The archives beside the study's records that this call does not bring about; the tables count those too."""
    others = PLAN.other_records() if DEFAULT_STORAGE else []
    return [artefacts_of(path) for path in others if path.startswith(f"{ROOT}/runs/")]


if DEFAULT_STORAGE:
    or_exit(share_results, Path(workflow.inputfile("results")))

    # Short, and at home where Snakemake was started: data come from its disk or network, the report is wanted there.
    localrules:
        dataset,
        upload_dataset,
        export,
        tables,
        figures,
        page,
        compare,
        publish,


if HOME and not CLAIM.dry:
    or_exit(CLAIM.require, Path(ROOT))
if HOME:
    # Not --keep-storage-local-copies: with that, Snakemake waits in vain for the files of `runs` and its kin.
    workflow.storage_registry.default_storage_provider.keep_local = True
    or_exit(bind_study, PLAN.study, workflow.storage_settings.default_storage_prefix, not CLAIM.dry)
    if not CLAIM.dry:
        or_exit(write_study, PLAN.study, Path(CONFIG))
    # What is listed here is sent with the workflow's own files, and no more.
    workflow.configfiles += files_to_send(PLAN.study, Path(workflow.basedir))
    # A dry run as well: without them it would take for missing what lies in the bucket. It adds copies and changes none.
    bring_home([PLAN.dataset_json(name) for name in PLAN.datasets()] + PLAN.records(PLAN.runs))
    bring_home(other_artefacts())
