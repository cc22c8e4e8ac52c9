"""Which machine serves a model that predicts, from its steps at several batches."""

from dataclasses import replace

from answer.test_answer import FREE, SPOT, answer, device, here

from whichdevice.apps.questions.predictions import serve_predictions
from whichdevice.decide.serving import MAX_SERVERS, Load, Serving
from whichdevice.decide.serving_words import cells, head, lines, text

LOAD = Load(200.0, 0, 1, 0.1, 0.1, "request")


def served(load: Load = LOAD, exported: dict[int, float] | None = None) -> Serving:
    steps = {1: (0.004, 0.02), 64: (0.02, 0.9)}  # of a T4 and of this machine
    answers = [
        answer(device("T4", of_t4, 0.4), replace(here(), step_time=of_here), FREE, SPOT, mode="predict", batch=batch)
        for batch, (of_t4, of_here) in steps.items()
    ]
    return serve_predictions("net", load, answers, exported)


def test_a_load_that_this_machine_answers_late_is_rented():
    found = served()
    assert found.pick is not None and found.pick.server.device == "T4" and (found.pick.sure or 0) > 0.9
    assert lines(found)[0].startswith("Rent a T4: USD 0.40 an hour, USD 0.56 a million requests at 200 requests a")
    assert served(replace(LOAD, rps=5.0)).pick == served(replace(LOAD, rps=5.0)).here


def test_machines_that_are_free_or_may_be_taken_away_serve_nobody():
    assert [option.server.device for option in served().options if not option.server.here] == ["T4"]


def test_slices_and_machines_of_several_devices_are_run_together_as_single_ones_are():
    rows = [
        device("8 × TPU v5e", 0.02, 9.6, kind="tpu", chip="TPU v5e", target="v5e-2x4", devices=8),
        device("4 × L40S", 0.02, 4.0, target="L40S", devices=4), device("L40S", 0.05, 1.0),
    ]  # fmt: skip
    servers = {option.server.device: option.server for option in serve_predictions(
        "net", LOAD, [answer(*rows, mode="predict", batch=64)]
    ).options}  # fmt: skip
    most = {name: server.most_servers for name, server in servers.items()}
    assert most == {"8 × TPU v5e": MAX_SERVERS, "4 × L40S": 16, "L40S": 64}


def test_the_table_is_of_requests():
    found = served()
    assert head(found)[1] == "GB" and head(found)[4] == "alone"
    assert [row[4] for _, row in cells(found)] == ["4 ms", "20 ms"]
    assert max(map(len, text(found, 100))) <= 100 and not any("token" in line for line in text(found, 100))


def test_the_exported_model_counts_here_and_its_engine_is_named():
    plain, quick = served(), served(exported={1: 0.002, 64: 0.01})
    assert quick.here is not None and plain.here is not None
    assert quick.here.server.first_token == 0.002 and plain.here.server.first_token == 0.02
    assert quick.here.server.quantile(0.5) > 10 * plain.here.server.quantile(0.5)
    assert "This machine is measured with ONNX Runtime." in text(quick, 100)
    assert [option.server for option in quick.options if not option.server.here] == [
        option.server for option in plain.options if not option.server.here
    ]
