"""The server on loopback: bytes that are no request, many clients, an end without leftovers."""

import json
import socket

import pytest
from serving.served_fake import EXAMPLE, PREDICTION, FakeModel

pytest.importorskip("uvicorn", reason="sh envs/extra.sh serve installs it")
pytest.importorskip("starlette", reason="sh envs/extra.sh serve installs it")

from whichdevice.errors import StudyError
from whichdevice.serving import application as served
from whichdevice.serving.application import BARE, Limits, application
from whichdevice.serving.load_process import load_process
from whichdevice.serving.server import background_server, bound_socket

PREDICT = "/v1/models/digits:predict"


@pytest.fixture(scope="module")
def port():
    with background_server(application({"digits": FakeModel()}, Limits(largest_body=10_000))) as port:
        yield port


@pytest.fixture
def body(tmp_path):
    path = tmp_path / "body.json"
    path.write_text(json.dumps({"instances": [EXAMPLE]}), encoding="utf-8")
    return path


def sent(port: int, message: bytes, finish: bool = False) -> tuple[int, dict]:
    """Status and content of the answer to raw bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for start in range(0, len(message), 10_000):
            try:
                connection.sendall(message[start : start + 10_000])
            except (BrokenPipeError, ConnectionResetError):
                break  # refused before all was sent
        if finish:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while part := connection.recv(65_536):
                answer += part
                head, _, rest = answer.partition(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1]) for line in head.splitlines() if b"content-length" in line.lower()
                )
                if len(rest) >= length:
                    break
        except ConnectionResetError:
            pass
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(rest)


def request(content: bytes, length: object = None) -> bytes:
    told = len(content) if length is None else length
    return f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\nContent-Length: {told}\r\n\r\n".encode() + content


GOOD = json.dumps({"instances": [EXAMPLE]}).encode()


@pytest.mark.parametrize(
    "message",
    [
        b"no HTTP at all\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,  # TLS
        request(GOOD, "many"),
        request(GOOD, -5),
        request(GOOD, 3),
        request(GOOD, 10**30),
        request(GOOD, 20_000),
        b"POST " + b"/" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
    ],
)
def test_every_broken_message_gets_a_4xx_with_a_reason_and_the_server_lives_on(port, message):
    status, content = sent(port, message)
    assert status == (413 if message == request(GOOD, 20_000) else 400)
    assert content["error"]
    assert sent(port, request(GOOD)) == (200, {"predictions": [PREDICTION]})


def test_a_client_that_leaves_in_the_middle_harms_nobody(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request(GOOD, len(GOOD) + 10))
    assert sent(port, request(GOOD))[0] == 200


def test_a_body_that_never_ends_is_given_up(port, monkeypatch):
    monkeypatch.setattr(served, "BODY_SECONDS", 0.2)
    status, content = sent(port, request(GOOD, len(GOOD) + 10))
    assert status == 408
    assert "did not arrive" in content["error"]


def test_none_of_many_requests_from_32_clients_is_lost(port, body):
    with load_process(port) as process:
        answers = process.load(PREDICT, body, clients=32, requests=2_000)
    assert (len(answers.latencies), answers.failed, answers.reason) == (2_000, 0, None)
    assert all(0 < latency <= answers.seconds for latency in answers.latencies)


def test_clients_go_on_until_their_time_is_over_and_say_what_failed(port, body, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}", encoding="utf-8")
    with load_process(port) as process:
        assert len(process.load(BARE, body, clients=2, seconds=0.1).latencies) > 2
        answers = process.load(PREDICT, wrong, clients=2, requests=6)
    assert (answers.latencies, answers.failed) == ([], 6)
    assert "needs one of instances and inputs" in str(answers.reason)


def test_answers_are_not_delayed_by_the_network_stack(port):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(request(GOOD))
        client.recv(1)
    with bound_socket(0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # else asyncio leaves TCP_NODELAY off


def test_a_port_that_is_taken_is_named(port):
    with pytest.raises(StudyError, match=rf"cannot listen on 127.0.0.1:{port}: .*another --port"):
        bound_socket(port)


def test_the_server_listens_on_loopback_alone(port):
    with bound_socket(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
