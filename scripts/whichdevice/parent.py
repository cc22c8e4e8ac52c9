"""End this process when the one that started it ends, however that happens."""

import os
import signal
import threading
import time

POLL_SECONDS = 0.5


def end_with_supervisor() -> None:
    """Leave at once when standard input closes, as it does when the supervisor that holds its other end dies.

    Whatever else reads standard input from now on finds it empty: nobody answers.
    """
    held = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)

    def watch() -> None:
        os.read(held, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def stop_with_parent(starter: int) -> None:
    """Be sent SIGTERM when the parent is gone: Snakemake may be killed without a chance to end its jobs.

    `starter` is the number of Snakemake's own process. It may have ended before this is called: then it is no longer
    above this one.
    """
    import psutil  # here: the measured process imports this file and needs none of it

    parent = os.getppid()
    orphan = starter not in [process.pid for process in psutil.Process().parents()]

    def watch() -> None:
        while not orphan and os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
