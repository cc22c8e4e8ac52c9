"""A server on loopback for the prediction service: in this process until Ctrl-C, or in a thread for a measurement."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from whichdevice.errors import StudyError

HOST = "127.0.0.1"
START_SECONDS = 30.0
BACKLOG = 2048  # connections that may wait, as uvicorn has it
LARGEST_HEAD = 65_536  # bytes
GOODBYE_SECONDS = 10  # for requests that are being answered when the server is stopped


class JsonRefusal(HttpToolsProtocol):
    """Answers bytes that are no HTTP request with JSON, as everything else is answered; heads have a largest size."""

    _head: int | None = 0  # bytes of a head that has not ended yet

    def data_received(self, data: bytes) -> None:
        """As uvicorn does, which itself would keep a head of any size."""
        if self._head is not None:
            if self._head > LARGEST_HEAD:
                self.send_400_response(f"its head is larger than {LARGEST_HEAD} bytes")
                return
            self._head += len(data)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """The head is over."""
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The next head begins."""
        super().on_message_complete()
        self._head = 0

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong and close."""
        body = json.dumps({"error": f"this is no HTTP request that the server understands: {msg}"}).encode()
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()


def bound_socket(port: int) -> socket.socket:
    """A listening socket on loopback; port 0 takes any free one. Raises StudyError where the port is taken."""
    # The protocol is named, for asyncio leaves TCP_NODELAY off where it is not: 40 ms an answer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(BACKLOG)  # from here on a client waits rather than being refused
    except (OSError, OverflowError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or error
        raise StudyError(f"serve: cannot listen on {HOST}:{port}: {why}; take another --port") from error
    return listener


def serve_until_stopped(application: Any, listener: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM; requests that are being answered are finished first."""
    with suppress(KeyboardInterrupt):  # uvicorn raises it once more when all is closed
        _server(application).run(sockets=[listener])


@contextmanager
def background_server(application: Any) -> Iterator[int]:
    """Serve in a thread while the context lasts; the port."""
    with closing(bound_socket(0)) as listener:
        server = _server(application)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        end = time.monotonic() + START_SECONDS
        while not server.started:
            if not thread.is_alive() or time.monotonic() > end:
                raise StudyError("serve: the server did not start; see its output")
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(GOODBYE_SECONDS + 5)


def _server(application: Any) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            application,
            http=JsonRefusal,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
        )
    )
