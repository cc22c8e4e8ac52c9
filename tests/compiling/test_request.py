"""What a study compiles, and the path that names each step."""

import re
from pathlib import Path

import pytest

from whichdevice.compiling.request import compile_requests, compiled_path, request_of
from whichdevice.config.model import Compile, Study, Workload
from whichdevice.errors import StudyError


def study(**changes) -> Study:
    workloads = {"mnist_cnn": Workload(batch_size=[256, 512]), "weather_gru": Workload(sequence_length=[168])}
    return Study(study="s", workloads=workloads, compile=Compile(topologies=["v2-2x2", "v5e-2x2"], **changes))


def test_every_slice_workload_precision_and_batch_is_one_step():
    paths = [request.path for request in compile_requests(study(precision=["float32", "mixed_bfloat16"]))]
    assert len(paths) == len(set(paths)) == 2 * (2 + 1) * 2
    assert "v2-2x2/mnist_cnn-float32-b512" in paths
    assert "v5e-2x2/weather_gru-mixed_bfloat16-b256-sequence_length=168" in paths  # the recipe's batch size


def test_a_study_may_name_workloads_and_batch_sizes():
    requests = compile_requests(study(workload=["mnist_cnn"], batch_size=[64]))
    assert [(request.workload, request.batch_size) for request in requests] == [("mnist_cnn", 64)] * 2


def test_a_path_leads_back_to_its_request():
    mine = study()
    for request in compile_requests(mine):
        path = compiled_path(mine, request)
        assert re.fullmatch(rf"results/s/compiled/{request.path}/[0-9a-f]{{12}}\.json", path.as_posix())
        assert request_of(mine, path) == request


def test_a_sequence_length_with_a_batch_keeps_its_dots_and_dashes():
    mine = study(workload=["weather_gru"])
    [path] = {
        compiled_path(mine, asked)
        for asked in compile_requests(mine)
        if asked.path == "v2-2x2/weather_gru-mixed_bfloat16-b256-sequence_length=168"
    }
    found = request_of(mine, path)
    assert (found.sequence_length, found.dataset) == (168, "weather_denmark")


def test_a_path_of_another_study_is_refused():
    with pytest.raises(StudyError, match="not compiled by this study"):
        request_of(study(), Path("results/s/compiled/v4-2x2x1/mnist_cnn-float32-b512/0123456789ab.json"))


def test_an_unknown_workload_is_named():
    with pytest.raises(StudyError, match="no mnist_cmm; there are mnist_cnn, weather_gru"):
        compile_requests(study(workload=["mnist_cmm"]))
