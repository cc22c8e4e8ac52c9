"""A model is deployed whole, or nothing is left that costs money."""

import signal

import pytest

pytest.importorskip("google.cloud.aiplatform_v1", reason="no google-cloud-aiplatform: sh envs/extra.sh cloud")

from deploying.fake_vertex_api import (
    BUSY,
    CRASHED,
    DENIED,
    DISABLED,
    NO_CAPACITY,
    QUOTA,
    UNKNOWN,
    FakeVertexApi,
)

from whichdevice.__main__ import main
from whichdevice.deploying import deployment
from whichdevice.deploying.deployment import Order, deploy, made, remove
from whichdevice.deploying.vertex_api import EMULATOR, VertexApi
from whichdevice.errors import StudyError

STEPS = ["upload", "create", "deploy"]


@pytest.fixture
def fake(monkeypatch):
    fake = FakeVertexApi()
    monkeypatch.setenv(EMULATOR, fake.address)
    monkeypatch.setattr(deployment, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(deployment, "REMOVED_SECONDS", 60.0)
    yield fake
    fake.close()


@pytest.fixture
def api(fake) -> VertexApi:
    return VertexApi("pays", "us-central1")


def order(**changes) -> Order:
    wanted = {"name": "mnist_cnn", "artefact": "gs://b/quick/models/mnist_cnn/saved_model/1", "image": "tf2-cpu"}
    return Order(**{**wanted, "machine_type": "e2-standard-2", "replicas": 1, **changes})


def nothing_left(fake: FakeVertexApi) -> bool:
    return not fake.models and not fake.endpoints and not fake.costs_money


def test_an_endpoint_serves_the_model_from_the_bucket_with_the_machines_asked_for(fake, api):
    endpoint = deploy(api, order(replicas=2), lambda line: None)
    [model] = fake.models.values()
    [deployed] = fake.endpoints[endpoint]["deployedModels"]
    assert model["artifactUri"] == "gs://b/quick/models/mnist_cnn/saved_model/1"
    assert model["containerSpec"] == {"imageUri": "tf2-cpu"}
    assert deployed["model"] == model["name"]
    resources = deployed["dedicatedResources"]
    assert resources["machineSpec"] == {"machineType": "e2-standard-2"}
    assert (resources["minReplicaCount"], resources["maxReplicaCount"]) == (2, 2)
    assert {model["labels"]["whichdevice"]} == {one["labels"]["whichdevice"] for one in fake.endpoints.values()}


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (DENIED, "roles/aiplatform.user"),
        (DISABLED, "gcloud services enable aiplatform.googleapis.com"),
        (UNKNOWN, "gcloud auth application-default login"),
        (QUOTA, "quotas"),
        (BUSY, "try again later"),
    ],
)
@pytest.mark.parametrize("step", STEPS)
def test_a_refused_step_is_told_in_one_line_and_leaves_nothing(fake, api, step, refusal, told):
    fake.refusals[step] = [refusal]
    with pytest.raises(StudyError) as error:
        deploy(api, order(), lambda line: None)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert nothing_left(fake)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("failure", [NO_CAPACITY, CRASHED])
def test_a_failed_operation_leaves_nothing(fake, api, step, failure):
    fake.operation_errors[step] = failure
    with pytest.raises(StudyError, match=failure[1].split()[0]):
        deploy(api, order(), lambda line: None)
    assert nothing_left(fake)


@pytest.mark.parametrize("step", STEPS)
def test_what_a_lost_answer_made_is_found_and_removed(fake, api, step):
    fake.unanswered = {step}
    with pytest.raises(StudyError, match="no answer from Vertex AI"):
        deploy(api, order(), lambda line: None)
    assert nothing_left(fake)


@pytest.mark.parametrize("step", [*STEPS, "operation"])
def test_ctrl_c_at_any_step_leaves_nothing(fake, api, step):
    fake.on_call[step] = lambda: signal.raise_signal(signal.SIGINT)
    monkey = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            deploy(api, order(), lambda line: None)
    finally:
        signal.signal(signal.SIGINT, monkey)
    assert nothing_left(fake)


@pytest.mark.parametrize("call", ["undeploy", "delete endpoints", "delete models", "list endpoints", "list models"])
@pytest.mark.parametrize("refusal", [BUSY, QUOTA, DENIED])
def test_removing_goes_on_through_errors(fake, api, call, refusal):
    deploy(api, order(), lambda line: None)
    fake.refusals[call] = [refusal] * 3
    remove(api, lambda line: None)
    assert nothing_left(fake)


def test_removing_goes_on_through_ctrl_c_while_it_waits_to_try_again(fake, api, monkeypatch):
    deploy(api, order(), lambda line: None)
    fake.refusals["list endpoints"] = [BUSY] * 2
    pressed = iter([True, True])

    def sleep(seconds):
        if next(pressed, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(deployment.time, "sleep", sleep)
    remove(api, lambda line: None)
    assert nothing_left(fake)


def test_what_cannot_be_removed_is_named(fake, api, monkeypatch):
    endpoint = deploy(api, order(), lambda line: None)
    monkeypatch.setattr(deployment, "REMOVED_SECONDS", 0.3)
    fake.refusals["undeploy"] = [BUSY] * 10_000
    with pytest.raises(StudyError, match=f"COULD BE REMOVED and may cost money: .*{endpoint}"):
        remove(api, lambda line: None)


def test_a_question_without_an_answer_is_asked_again(fake, api):
    fake.refusals["operation"] = [BUSY] * 3
    endpoint = deploy(api, order(), lambda line: None)
    assert fake.endpoints[endpoint]["deployedModels"]


def test_removing_touches_nothing_that_others_made(fake, api):
    theirs = {"displayName": "theirs", "labels": {"team": "other"}, "deployedModels": []}
    fake.endpoints["projects/pays/locations/us-central1/endpoints/99"] = {
        **theirs,
        "name": "projects/pays/locations/us-central1/endpoints/99",
    }
    deploy(api, order(), lambda line: None)
    remove(api, lambda line: None)
    assert [one["displayName"] for one in fake.endpoints.values()] == ["theirs"]
    assert made(api) == []


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A SavedModel at a gs:// address that a folder stands for."""
    from whichdevice.remote import place

    folder = tmp_path / "saved_model"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"graph")
    original = place.open_place
    monkeypatch.setattr(
        place, "open_place", lambda address: original(str(folder if address == "gs://b/model" else tmp_path / "none"))
    )
    return "gs://b/model"


def test_the_command_says_the_price_before_it_asks_and_undeploy_removes_all(fake, published, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    arguments = ["deploy", "mnist_cnn", "--artefact", published, "--project", "pays"]
    assert main([*arguments, "--dry-run"]) == 0
    assert main(arguments) == 2  # nobody can be asked
    told = capsys.readouterr()
    assert "0.077 USD per hour (estimate), 56 USD per month" in told.out
    assert "add --yes" in told.err
    assert not fake.paid
    assert main([*arguments, "--yes"]) == 0
    assert fake.costs_money
    assert "undeploy --project pays --region us-central1" in capsys.readouterr().out
    assert main(["undeploy", "another", "--project", "pays", "--yes"]) == 0
    assert fake.costs_money
    assert main(["undeploy", "--project", "pays", "--yes"]) == 0
    assert nothing_left(fake)
    assert main(["undeploy", "--project", "pays"]) == 0
    assert "Nothing that deploy made" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--artefact", "gs://b/other"], "no SavedModel at gs://b/other"),
        (["--artefact", "/tmp/model"], "Vertex AI reads gs:// alone"),
        ([], "storage.bucket is empty"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(
    fake, published, capsys, arguments, told, project_root, monkeypatch
):
    monkeypatch.chdir(project_root)
    assert main(["deploy", "mnist_cnn", "--project", "pays", "--yes", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert nothing_left(fake)
    assert not fake.paid


@pytest.mark.parametrize(("status", "told"), [("different", "is different: predicts otherwise"), ("ok", None)])
def test_only_a_checked_export_of_the_study_is_deployed(
    fake, tmp_path, monkeypatch, capsys, project_root, status, told
):
    from whichdevice.records.exported import ExportRecord
    from whichdevice.remote import place

    original, folder = place.open_place, tmp_path / "quick/models/mnist_cnn"
    monkeypatch.setattr(place, "open_place", lambda address: original(address.replace("gs://b", str(tmp_path))))
    (folder / "saved_model/1").mkdir(parents=True)
    (folder / "saved_model/1/saved_model.pb").write_bytes(b"graph")
    record = ExportRecord(
        study="quick", workload="mnist_cnn", module="mnist_cnn", status=status, reason="predicts otherwise"
    )
    (folder / "export.json").write_text(record.model_dump_json(), encoding="utf-8")
    monkeypatch.chdir(project_root)
    arguments = ["deploy", "mnist_cnn", "--project", "pays", "--config", "storage={bucket: gs://b}", "--dry-run"]
    assert main(arguments) == (0 if told is None else 2)
    assert (told or "") in capsys.readouterr().err


def test_an_unknown_price_is_not_invented(fake, published, capsys):
    assert main(["deploy", "m", "--artefact", published, "--project", "p", "--machine-type", "x1", "--dry-run"]) == 0
    assert "No price of x1 is known here" in capsys.readouterr().out
