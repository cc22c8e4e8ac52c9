"""Somebody's endless file ends in one line; what is quick is let be."""

import threading
import time

import pytest

from whichdevice.errors import StudyError
from whichdevice.time_limit import time_limit


def test_endless_code_is_stopped_and_named():
    with pytest.raises(StudyError, match=r"^my_model: still running after 0\.05 s$"), time_limit(0.05, "my_model"):
        while True:
            pass


def test_no_limit_outlives_its_block():
    with time_limit(0.05, "quick"):
        pass
    time.sleep(0.1)


def test_off_the_main_thread_there_is_no_limit_and_no_error():
    went = []

    def limited():
        with time_limit(0.01, "thread"):
            time.sleep(0.05)
            went.append(True)

    thread = threading.Thread(target=limited)
    thread.start()
    thread.join()
    assert went == [True]
