"""The script that ends a machine by itself."""

import subprocess
import time
from pathlib import Path

from cloud.stage import Cloud

from whichdevice.cloud.lifetime import startup_script


def test_it_is_a_shell_script_that_names_what_is_to_be_deleted(tmp_path: Path) -> None:
    node = startup_script("my-project", "projects/my-project/locations/us-central1-b/nodes/one", 1.5)
    assert node.startswith("#!/bin/sh\nRESOURCE='projects/my-project/locations/us-central1-b/nodes/one'\n")
    assert "SECONDS_TO_LIVE=5400" in node
    queued = startup_script("my-project", "projects/my-project/locations/us-central1-b/queuedResources/one", 1)
    assert "queuedResources/one?force=true'" in queued
    assert subprocess.run(["sh", "-n"], input=node, text=True, check=False).returncode == 0


def test_a_machine_that_is_left_alone_deletes_itself(cloud: Cloud) -> None:
    for queued in (False, True):
        cloud.write(max_hours=2 / 3600, queued=queued)
        assert cloud.tpu("up", "--yes").code == 0
        deadline = time.monotonic() + 30
        while cloud.api.alive() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert cloud.api.alive() == []
