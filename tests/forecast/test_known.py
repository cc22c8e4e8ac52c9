"""Steps of well-known names are in the package: `python -m tools.known_steps NAME ...` counts them anew."""

import pytest

from whichdevice.forecast.count.kept import counted_step
from whichdevice.forecast.known import known_record, known_steps
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target, usual_precision
from whichdevice.models.address import built_in_names
from whichdevice.models.loading import Model

BERT = "hf:distilbert/distilbert-base-uncased"


def request(module: str, device: str, **more: object) -> ProgramRequest:
    model, target = Model.read(module), find_target(device)
    return ProgramRequest(
        device=device, workload="w", module=model.text, precision=usual_precision(target),
        batch_size=model.recipe.batch_size, sequence_length=model.recipe.sequence_length, **more,
    )  # fmt: skip


@pytest.mark.parametrize("name", built_in_names())
def test_each_built_in_workload_is_known_on_every_device(name):
    for device in ("T4", "P100 SXM2", "H100 SXM", "TPU v5e"):
        record = known_record(request(name, device))
        assert record is not None and record.status in ("ok", "does_not_fit") and record.work


def test_what_nobody_counted_is_not_known():
    asked = request("mnist_cnn", "T4")
    assert known_record(asked.model_copy(update={"batch_size": 12})) is None
    assert known_record(asked.model_copy(update={"precision": "bfloat16"})) is None  # a T4 has none
    assert known_record(asked.model_copy(update={"mode": "predict"})) is None
    assert not any(known_steps("nothing.py"))
    assert any(known_steps(BERT)) and known_steps("hf:distilbert-base-uncased") == known_steps(BERT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist_official", "shakespeare_lstm"])
def test_the_counts_are_those_of_this_code(name):
    from whichdevice.forecast.count.process import count_step

    asked = request(name, "H100 SXM")
    kept = {str(step): count for step, count in known_steps(name).counts.items()}
    fresh = count_step(asked)
    assert fresh in kept.values(), f"count them anew: python -m tools.known_steps {name} ({counted_step(asked)})"


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_the_records_are_those_of_this_code(working_folder):
    from whichdevice.forecast.torch.records import Traced

    kept = [record for record in known_steps(BERT).records.values() if record.asked.devices == 1]
    asked = next(record.asked for record in kept if record.asked.device == "H100 SXM")
    record = known_record(asked)
    status, reason, facts, work = Traced(asked).record(asked, find_target("H100 SXM"))
    assert (record.status, record.reason, record.work) == (status, reason, work.digest())
    assert record.facts == facts, f"count them anew: python -m tools.known_steps {BERT}"
