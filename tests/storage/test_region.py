"""A warning where bucket and machine lie apart; off Google's machines nothing is asked."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from whichdevice.config.storage import Storage
from whichdevice.storage import region
from whichdevice.storage.administration import make_bucket
from whichdevice.storage.place import open_place
from whichdevice.storage.region import is_near, machine_region, region_warning


class Metadata(BaseHTTPRequestHandler):
    """Google's metadata server, of a machine in us-central1."""

    def do_GET(self) -> None:
        asked_well = self.path.endswith("/instance/zone") and self.headers.get("Metadata-Flavor") == "Google"
        self.send_response(200 if asked_well else 403)
        self.end_headers()
        self.wfile.write(b"projects/12345/zones/us-central1-b")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def in_us_central1(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is one of Google's."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()


def test_off_googles_machines_nothing_is_asked(monkeypatch, tmp_path):
    monkeypatch.delenv("GCE_METADATA_HOST", raising=False)
    monkeypatch.setattr(region, "PRODUCT", tmp_path / "none")
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("asked"))
    assert machine_region() is None


def test_a_machine_says_its_region(in_us_central1):
    assert machine_region() == "us-central1"


def test_a_bucket_far_away_is_warned_of_and_a_near_one_is_not(in_us_central1, settings_kept, request):
    far, near = (open_place(f"gs://{name}-{id(request)}") for name in ("far", "near"))
    make_bucket(far, Storage(location="EUROPE-WEST4", project="p"))
    make_bucket(near, Storage(location="US", project="p"))
    assert "lies in europe-west4, this machine in us-central1" in (region_warning(far) or "")
    assert region_warning(near) is None


def test_a_folder_has_no_region(in_us_central1, tmp_path):
    assert region_warning(open_place(str(tmp_path))) is None


@pytest.mark.parametrize(
    ("bucket", "near"),
    [
        ({"location": "US"}, True),
        ({"location": "US-CENTRAL1"}, True),
        ({"location": "NAM4"}, True),
        ({"location": "US-EAST1"}, False),
        ({"location": "EU"}, False),
        ({"location": "US", "customPlacementConfig": {"dataLocations": ["US-WEST1", "US-CENTRAL1"]}}, True),
        ({"location": "US", "customPlacementConfig": {"dataLocations": ["US-WEST1", "US-EAST1"]}}, False),
    ],
)
def test_locations_cover_regions(bucket, near):
    assert is_near("us-central1", bucket) is near
