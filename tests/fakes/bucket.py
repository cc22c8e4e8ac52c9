"""A bucket on loopback: gcp-storage-emulator in this process."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def bucket_emulator(name: str) -> Iterator[str]:
    """Serve an empty bucket of that name; gives the address for STORAGE_EMULATOR_HOST."""
    from gcp_storage_emulator.server import create_server

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=name)
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
