"""Whatever is wrong with a bucket is one line that a person can act on; the server's words stay away."""

import asyncio
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from remote.conftest import use_google

from whichdevice.base.errors import StudyError
from whichdevice.study.remote.transfer import download, open_place, upload

ACCOUNT = "somebody@secret-project.iam.gserviceaccount.com"


class Refusal(BaseHTTPRequestHandler):
    """Answers everything with the status that its server was told."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        code = self.server.code
        body = json.dumps({"error": {"code": code, "message": f"{ACCOUNT} does not have access"}}).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """A server in the place of Google's that refuses everything, at once."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    use_google(f"http://127.0.0.1:{server.server_port}", monkeypatch)
    without_waiting(monkeypatch)
    yield server
    server.shutdown()
    server.server_close()


def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """gcsfs tries again at once."""
    sleep = asyncio.sleep
    monkeypatch.setattr("gcsfs.retry.asyncio.sleep", lambda seconds: sleep(0))


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (401, "the credentials are missing, wrong or expired (HTTP 401); run `gcloud auth application-default login`"),
        (403, "no permission for this account; ask the bucket's owner for the role Storage Object User"),
        (404, "no such bucket or object; make it: gcloud storage buckets create gs://NAME, or correct"),
        (503, "the server answered HTTP 503; nothing is lost; run again to continue"),
    ],
)
def test_each_refusal_is_one_line_up_and_down(refusing, file_of, tmp_path, code, line):
    refusing.code = code
    place = open_place("gs://somebucket/prefix")
    here = file_of("a", 10)
    for work in (
        lambda: upload(place, {"a": here}),
        place.listing,
        lambda: download(place, {"a": tmp_path / "b"}, {"a": {"size": 10, "crc32c": "AAAAAA=="}}),
    ):
        with pytest.raises(StudyError) as caught:
            work()
        text = str(caught.value)
        assert line in text and text.startswith("gs://somebucket/prefix") and "\n" not in text
        assert ACCOUNT not in text
    assert here.stat().st_size == 10 and not (tmp_path / "b").exists()


def test_a_server_out_of_reach_is_one_line(monkeypatch):
    use_google("http://127.0.0.1:9", monkeypatch)
    without_waiting(monkeypatch)
    with pytest.raises(StudyError, match="cannot be reached or the connection broke"):
        open_place("gs://somebucket").listing()


@pytest.mark.parametrize("content", [None, "no json", '{"type": "service_account", "project_id": "secret-project"}'])
def test_credentials_that_are_none_are_one_line(tmp_path: Path, monkeypatch, content):
    key = tmp_path / "key.json"
    if content is not None:
        key.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    with pytest.raises(StudyError) as caught:
        open_place("gs://somebucket").listing()
    assert "no usable Google credentials on this machine" in str(caught.value)
    assert "run `gcloud auth" in str(caught.value)
    assert "secret-project" not in str(caught.value)


def test_a_bucket_that_is_not_there_is_told_from_an_empty_one(google, bucket):
    assert bucket.listing() == {}
    with pytest.raises(StudyError, match="no such bucket or object"):
        open_place("gs://nobody-made-this/prefix").listing()


@pytest.mark.parametrize("address", ["", "gs://", "nosuch://bucket"])
def test_an_address_that_is_none_is_one_line(address):
    with pytest.raises(StudyError):
        open_place(address)


def test_names_that_lead_out_of_the_place_and_links_are_not_listed(working_folder: Path) -> None:
    with zipfile.ZipFile("odd.zip", "w") as archive:
        for name in ("a/../../out", "/rooted", "fine"):
            archive.writestr(name, "x")
    assert set(open_place("odd.zip").listing()) == {"fine"}
    Path("folder").mkdir()
    Path("folder/link").symlink_to("/etc/passwd")
    Path("folder/fine").touch()
    assert set(open_place("folder").listing()) == {"fine"}


def test_a_zip_that_is_none_is_one_line(working_folder: Path) -> None:
    Path("broken.zip").write_text("no zip")
    with pytest.raises(StudyError, match=r"^broken\.zip: is no readable zip file$"):
        open_place("broken.zip")
