"""What a person is told to call acts on the study that told it."""

from whichdevice.config.model import Call, Data, Measure, Study
from whichdevice.workflow_command import repeat_failed, workflow_command


def test_the_study_that_ships_needs_no_config() -> None:
    assert workflow_command(Study(), "gpu") == "snakemake --cores 1 gpu"
    found = Data(sources={"mnist": "standin"})
    assert workflow_command(Study(data=found)) == "snakemake --cores 1 all"
    assert workflow_command(Call(retry="failed")) == "snakemake --cores 1 all"


def test_any_other_study_is_named_by_its_own_config() -> None:
    assert workflow_command(Study(study="try"), "cpu") == "snakemake --cores 1 cpu --configfile results/try/config.yaml"
    own = "--configfile results/quick/config.yaml"
    assert workflow_command(Study(measure=Measure(seconds=5))) == f"snakemake --cores 1 all {own}"
    assert repeat_failed(Study(seed=2)) == (f"snakemake --cores 1 all {own} --forcerun measure --config retry=failed")
