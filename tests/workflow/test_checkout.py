"""A checkout runs its own code, whichever checkout its environment was made in."""

import json

import pytest

pytestmark = pytest.mark.slow


def test_a_job_takes_the_package_of_the_checkout_that_planned_it(project):
    """A copy of the project has no environment of its own: the one it runs in has another checkout's package."""
    project.write({"study": "own", "data": {"source": "standin"}, "workloads": {"mnist_cnn": {"batch_size": [64]}}})
    project.edit("scripts/whichdevice/datasets/mnist.py", '="70,000', '="Seventy thousand')
    done = project.snakemake("datasets")
    assert done.code == 0, done.out
    made = json.loads(next(project.folder.glob("results/datasets/mnist/standin-*/dataset.json")).read_text())
    assert made["description"].startswith("Seventy thousand")
