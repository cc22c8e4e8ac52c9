"""`deploy` shows a price and asks; whatever fails midway, and `--remove`, leave nothing that costs money."""

import os
import signal
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

from whichdevice.__main__ import main
from whichdevice.apps.commands import deploy
from whichdevice.study.config.load import check_yaml
from whichdevice.study.exporting.export import export_path
from whichdevice.study.exporting.record import ExportRecord
from whichdevice.study.planning.study_plan import plan_study


class Fake(ModuleType):
    """The classes of google.cloud.aiplatform that `deploy` uses, with what exists and what goes wrong."""

    def __init__(self) -> None:
        super().__init__("google.cloud.aiplatform")
        self.there: list[object] = []
        self.paid = False
        self.faults: dict[str, list[BaseException | int]] = {}
        fake = self

        class Resource:
            def __init__(self, **asked: object) -> None:
                self.asked, self.serves = asked, False
                self.resource_name = f"projects/p/locations/r/{type(self).__name__}/{len(fake.there)}"
                fake.there.append(self)

            @classmethod
            def list(cls, filter: str) -> list[object]:
                fake.fails(f"list {cls.__name__}")
                label = filter.removeprefix("labels.whichdevice=")
                return [one for one in fake.there if type(one) is cls and one.asked["labels"]["whichdevice"] == label]

            def delete(self, force: bool = False) -> None:
                fake.fails(f"delete {type(self).__name__}")
                if self.serves and not force:
                    raise RuntimeError("400 it serves a model")
                fake.there.remove(self)

        class Endpoint(Resource):
            @classmethod
            def create(cls, **asked: object) -> "Endpoint":
                fake.fails("create")
                return cls(**asked)

        class Model(Resource):
            @classmethod
            def upload(cls, **asked: object) -> "Model":
                made = cls(**asked)  # an error may also mean that the answer was lost
                fake.fails("upload")
                return made

            def deploy(self, endpoint: Endpoint, **asked: object) -> None:
                endpoint.serves = fake.paid = True
                self.asked |= asked
                fake.fails("deploy")

        self.Endpoint, self.Model = Endpoint, Model

    def init(self, **where: object) -> None:
        """The project and the region."""
        self.where = where

    def fails(self, call: str) -> None:
        """What goes wrong in this call, once: an error, or a signal to this process."""
        if self.faults.get(call):
            fault = self.faults[call].pop(0)
            if not isinstance(fault, BaseException):
                os.kill(os.getpid(), fault)
            else:
                raise fault


@pytest.fixture
def fake(monkeypatch, tmp_path, project_root):
    """Vertex AI, and a bucket gs://b with the study's checked export of mnist_cnn."""
    made = Fake()
    monkeypatch.setitem(sys.modules, "google.cloud.aiplatform", made)
    monkeypatch.setattr(deploy, "PAUSE", 0.0)
    opened = deploy.open_place
    monkeypatch.setattr(deploy, "open_place", lambda address: opened(address.replace("gs://b", str(tmp_path))))
    monkeypatch.chdir(project_root)
    write_export(tmp_path, "ok")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


@lru_cache
def export_folder():
    """Where the default study's export of mnist_cnn is, below the bucket."""
    study = plan_study(check_yaml(Path("config/config.yaml"))).study
    return export_path(study, "mnist_cnn").parent.relative_to("results")


def write_export(bucket, status):
    folder = bucket / export_folder()
    (folder / "saved_model/1").mkdir(parents=True, exist_ok=True)
    (folder / "saved_model/1/saved_model.pb").write_bytes(b"graph")
    facts = {"study": "quick", "workload": "mnist_cnn", "module": "mnist_cnn", "reason": "predicts otherwise"}
    (folder / "export.json").write_text(ExportRecord(status=status, **facts).model_dump_json(), encoding="utf-8")


DEPLOY = ["deploy", "mnist_cnn", "--config", "storage={bucket: gs://b}", "--project", "pays"]


def test_a_model_is_deployed_after_price_and_question_and_removed_again(fake, capsys):
    assert main(DEPLOY) == 2 and not fake.there, "nobody can be asked"
    assert "about 0.077 USD an hour, 56 USD a month, used or not" in capsys.readouterr().out
    assert main([*DEPLOY, "--yes"]) == 0 and fake.paid
    model = next(one for one in fake.there if "artifact_uri" in one.asked)
    assert model.asked["artifact_uri"] == f"gs://b/{export_folder()}/saved_model/1"
    assert model.asked["min_replica_count"] == model.asked["max_replica_count"] == 1
    assert fake.where == {"project": "pays", "location": "us-central1"}
    assert "deploy mnist_cnn --remove --region us-central1" in capsys.readouterr().out
    assert main([*DEPLOY, "--yes"]) == 2, "a second one would cost twice"
    assert main(["deploy", "another", "--remove", "--yes"]) == 0 and len(fake.there) == 2
    assert main(["deploy", "mnist_cnn", "--remove", "--yes"]) == 0 and not fake.there


@pytest.mark.parametrize("step", ["upload", "create", "deploy"])
@pytest.mark.parametrize("fault", [RuntimeError("503"), signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=str)
def test_what_fails_midway_leaves_nothing(fake, step, fault):
    fake.faults = {step: [fault], "delete Endpoint": [RuntimeError("400 busy")], "delete Model": [signal.SIGINT]}
    assert main([*DEPLOY, "--yes"]) == (2 if isinstance(fault, RuntimeError) else 130)
    assert not fake.there


@pytest.mark.parametrize("call", ["delete Endpoint", "delete Model"])
def test_a_removal_is_tried_again(fake, call):
    main([*DEPLOY, "--yes"])
    fake.faults = {call: [RuntimeError("busy")] * 3}
    assert main(["deploy", "mnist_cnn", "--remove", "--yes"]) == 0 and not fake.there


def test_what_cannot_be_removed_is_said_with_the_command(fake, capsys):
    main([*DEPLOY, "--yes"])
    fake.faults = {"delete Endpoint": [RuntimeError("busy")] * 999}
    assert main(["deploy", "mnist_cnn", "--remove", "--yes"]) == 2
    assert "NOT EVERYTHING COULD BE REMOVED, it costs money (busy); run: python -m" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "study=quick"], "storage.bucket is empty"),
        (["--config", "storage={bucket: models}"], "Vertex AI reads gs:// alone"),
        (["--config", "storage={bucket: gs://b/none}"], "no SavedModel at gs://b/none/"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(fake, capsys, arguments, said):
    assert main([*DEPLOY, "--yes", *arguments]) == 2
    assert said in capsys.readouterr().err and not fake.there


def test_an_export_that_predicts_otherwise_is_not_deployed(fake, tmp_path, capsys):
    write_export(tmp_path, "different")
    assert main([*DEPLOY, "--yes"]) == 2
    assert "is different: predicts otherwise" in capsys.readouterr().err and not fake.there


def test_an_unknown_price_is_not_invented(fake, capsys):
    assert main([*DEPLOY, "--machine-type", "x1", "--dry-run"]) == 0
    assert "Price: unknown for x1" in capsys.readouterr().out and not fake.there


def test_without_the_client_the_line_says_how_to_install_it(fake, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.cloud.aiplatform", None)
    assert main([*DEPLOY, "--yes"]) == 2
    assert "sh envs/extra.sh cloud" in capsys.readouterr().err
