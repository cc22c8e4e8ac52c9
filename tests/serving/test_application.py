"""The service answers as TensorFlow Serving does, and lives on whatever it is sent."""

import json
import threading
import time
from typing import Any

import pytest
from serving.served_fake import EXAMPLE, PREDICTION, FakeModel

pytest.importorskip("starlette", reason="sh envs/extra.sh serve installs it")
pytest.importorskip("httpx", reason="sh envs/extra.sh serve installs it")

from starlette.testclient import TestClient

from whichdevice.serving.application import Limits, application

PREDICT = "/v1/models/digits:predict"


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def client(model):
    limits = Limits(largest_batch=3, largest_body=2000, workers=1, waiting=1)
    with TestClient(application({"digits": model}, limits), raise_server_exceptions=False) as client:
        yield client


def refused(answer, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


def test_rows_and_columns_answer_in_their_own_form(client):
    assert client.post(PREDICT, json={"instances": [EXAMPLE] * 2}).json() == {"predictions": [PREDICTION] * 2}
    assert client.post(PREDICT, json={"inputs": [EXAMPLE] * 2}).json() == {"outputs": [PREDICTION] * 2}
    assert client.post("/v1/models/digits/versions/1:predict", json={"instances": [EXAMPLE]}).status_code == 200


def test_status_and_metadata_are_tensorflow_servings(client):
    [state] = client.get("/v1/models/digits").json()["model_version_status"]
    assert (state["version"], state["state"], state["status"]["error_code"]) == ("1", "AVAILABLE", "OK")
    answer = client.get("/v1/models/digits/metadata").json()
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert answer["model_spec"]["name"] == "digits"
    assert signature["inputs"]["images"]["dtype"] == "DT_UINT8"
    assert [size["size"] for size in signature["inputs"]["images"]["tensor_shape"]["dim"]] == ["-1", "2", "3"]
    assert signature["outputs"]["predictions"]["dtype"] == "DT_FLOAT"
    assert client.get("/v1/models").json() == {"models": ["digits"]}


def test_inputs_that_the_model_cannot_take_are_the_senders_fault(client):
    answer = client.post(PREDICT, json={"instances": [[[253, 0, 0], [0, 0, 0]]]})
    assert "253 is too much" in refused(answer, 400)


def test_unknown_addresses_and_methods_are_told(client):
    assert "no model 'digit'; there are digits" in refused(client.get("/v1/models/digit"), 404)
    assert "no version" in refused(client.get("/v1/models/digits/versions/2"), 404)
    assert "POST" in refused(client.get(PREDICT), 405)
    refused(client.get("/"), 404)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no JSON", 400),
        (b"", 400),
        (b'{"instances": [[[1, 2, NaN], [4, 5, 6]]]}', 400),
        (json.dumps({"instances": [[[1, 2], [3, 4]]]}).encode(), 400),
        (json.dumps({"instances": [[["a", 2, 3], [4, 5, 6]]]}).encode(), 400),
        (json.dumps({"instances": [EXAMPLE] * 4}).encode(), 413),
        (b"[" * 1999, 400),
        (b" " * 2001, 413),
    ],
)
def test_malformed_requests_get_a_reason_and_the_next_one_an_answer(client, model, body, status):
    refused(client.post(PREDICT, content=body), status)
    assert model.calls == 0
    assert client.post(PREDICT, json={"instances": [EXAMPLE]}).json() == {"predictions": [PREDICTION]}


def test_a_body_that_hides_its_length_is_cut_off(client):
    parts = (b" " * 500 for _ in range(10))
    assert "at most 2000 bytes" in refused(client.post(PREDICT, content=parts), 413)


def test_a_fault_of_the_model_tells_no_more_than_that(client):
    assert "secret" not in refused(client.post(PREDICT, json={"instances": [[[255, 0, 0], [0, 0, 0]]]}), 500)
    assert "not finite" in refused(client.post(PREDICT, json={"instances": [[[254, 0, 0], [0, 0, 0]]]}), 500)
    assert client.post(PREDICT, json={"instances": [EXAMPLE]}).status_code == 200


def test_more_requests_than_may_wait_are_sent_away_at_once(client, model):
    model.go_on.clear()
    answers: list[Any] = []
    body = {"instances": [EXAMPLE]}
    threads = [threading.Thread(target=lambda: answers.append(client.post(PREDICT, json=body))) for _ in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    while not answers and time.monotonic() < end:
        time.sleep(0.01)
    [early] = answers  # one is being answered and one waits, until the model goes on
    model.go_on.set()
    for thread in threads:
        thread.join()
    assert "try again" in refused(early, 503)
    assert early.headers["retry-after"] == "1"
    assert [answer.status_code for answer in answers] == [503, 200, 200]
