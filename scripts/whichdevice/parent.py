"""Processes that must not go on for nobody: they end when whoever started them does, however that ended."""

import os
import signal
import threading
import time

POLL_SECONDS = 0.5


def end_with_supervisor() -> None:
    """Leave at once when standard input closes, as it does when the supervisor that holds its other end dies."""

    def watch() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def stop_with_parent() -> None:
    """Be sent SIGTERM when the parent is gone: Snakemake may be killed without a chance to end its jobs."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
