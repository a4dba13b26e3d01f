"""The live view's server: who may ask, what is answered, and what is never read."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope import child
from npuscope.cli.main import main
from npuscope.errors import OutputError, UsageError
from npuscope.live.library import Library
from npuscope.live.server import LiveServer
from npuscope.live.setting import Setting
from processes import started

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("models")
    model = save(folder, "net.tflite", to_tflite(mobilenet_like()))
    made = LiveServer(Library([model], [], {}), Setting())
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def send(
    server: LiveServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    line.request(method, path, body, named)
    answer = line.getresponse()
    found = answer.status, dict(answer.headers), answer.read()
    line.close()
    return found


def ask(server: LiveServer, question: str, body: object, **headers: str) -> tuple[int, object]:
    sent = json.dumps(body).encode()
    path = f"/{server.token}/{question}"
    status, _, data = send(server, "POST", path, sent, Content_Type="application/json", **headers)
    return status, json.loads(data) if status == 200 else data.decode()


def test_the_page_and_a_report(server: LiveServer) -> None:
    status, headers, page = send(server, "GET", f"/{server.token}/")
    assert status == 200
    assert "connect-src 'self'" in page.decode()
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Server" not in headers or "Python" not in headers["Server"]
    status, told = ask(server, "report", {})
    assert status == 200
    assert told["report"]["title"] == "net.tflite"


def test_it_listens_on_this_computer_alone(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""]
)
def test_another_name_for_this_computer_is_refused(server: LiveServer, host: str) -> None:
    told = host.format(port=server.port)
    status, _, body = send(server, "GET", f"/{server.token}/", Host=told)
    assert (status, body) == (421, b"this host name is not served\n")


def test_localhost_is_another_name_that_is_ours(server: LiveServer) -> None:
    assert send(server, "GET", f"/{server.token}/", Host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize("path", ["/", "/x/", "/{token}", "/{short}/", "/%2e%2e/{token}/", "//"])
def test_without_the_token_nothing_is_told(server: LiveServer, path: str) -> None:
    told = path.format(token=server.token, short=server.token[:-1])
    status, _, body = send(server, "GET", told)
    assert (status, body) == (403, b"the address lacks the printed token\n")


def test_every_server_has_its_own_token(server: LiveServer) -> None:
    other = LiveServer(server.library, Setting())
    other.server_close()
    assert other.token != server.token
    assert len(server.token) >= 24


@pytest.mark.parametrize("path", ["net.tflite", "../net.tflite", "../../etc/passwd", "report"])
def test_no_file_is_ever_read(server: LiveServer, path: str) -> None:
    assert send(server, "GET", f"/{server.token}/{path}")[0] == 404


def test_a_path_in_a_question_leads_nowhere(server: LiveServer) -> None:
    status, told = ask(server, "report", {"model": "/etc/passwd"})
    assert status == 200
    assert "expected a whole number" in told["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_questions_of_other_pages_are_refused(server: LiveServer, headers: dict[str, str]) -> None:
    assert ask(server, "report", {}, **headers) == (403, "request from another page\n")


def test_our_own_page_may_ask(server: LiveServer) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    assert ask(server, "report", {}, Origin=origin, Sec_Fetch_Site="same-origin")[0] == 200


def test_a_form_of_another_page_cannot_ask(server: LiveServer) -> None:
    path = f"/{server.token}/report"
    assert send(server, "POST", path, b"{}", Content_Type="text/plain")[0] == 415


@pytest.mark.parametrize(
    ("length", "status"), [("70000", 413), ("-1", 411), ("x", 411), ("9" * 20, 411)]
)
def test_a_question_has_a_size(server: LiveServer, length: str, status: int) -> None:
    path = f"/{server.token}/report"
    assert send(server, "POST", path, b"", Content_Length=length, **JSON)[0] == status


def test_what_is_not_json_is_told(server: LiveServer) -> None:
    path = f"/{server.token}/report"
    status, _, body = send(server, "POST", path, b"{", **JSON)
    assert status == 200
    assert json.loads(body)["error"]["message"].startswith("not JSON")


def test_a_bug_ends_one_question_only(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("npuscope.live.answers.report", broken)
    assert ask(server, "report", {})[1]["error"]["message"] == "this is a bug: oh"
    monkeypatch.undo()
    assert "report" in ask(server, "report", {})[1]


def test_a_port_in_use_is_told(server: LiveServer) -> None:
    with pytest.raises(OutputError, match="the port cannot be used"):
        LiveServer(server.library, Setting(), server.port)


def test_a_port_out_of_range_is_told() -> None:
    with pytest.raises(UsageError, match="expected a port from 0 to 65535"):
        npuscope.serve("net.tflite", port=70000)


def test_the_verb_prints_its_address_and_ends_with_a_signal(tmp_path: Path) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    command = [sys.executable, "-m", "npuscope", "serve", str(model), "--json"]
    output = {"stdout": subprocess.PIPE, "text": True}
    with started(command, env=child.environment(), **output) as process:
        told = json.loads(process.stdout.readline())
        assert told["schema"] == "npuscope/serve/1"
        port = int(told["address"].split(":")[2].partition("/")[0])
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        line.request("GET", "/" + told["address"].split("/")[3] + "/")
        assert line.getresponse().status == 200
        process.terminate()
        assert process.wait(60) == 0


def test_many_questions_at_once_are_all_answered(server: LiveServer) -> None:
    """All connect before any is answered."""
    lines = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(100)]
    head = f"GET /{server.token}/none HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
    for line in lines:
        line.sendall(head.encode())
    first = [line.recv(12) for line in lines]
    for line in lines:
        line.close()
    assert set(first) == {b"HTTP/1.1 404"}


@pytest.mark.parametrize(
    ("asked", "where", "message"),
    [
        ({"optimization": 99999}, "$.optimization", "expected one of 0, 1, 2, 3, found 99999"),
        ({"optimization": -1}, "$.optimization", "expected one of 0, 1, 2, 3, found -1"),
        ({"fixes": ["a/b"] * 3000}, "$.fixes", "expected at most 64, found 3000"),
        ({"values": [["a", "1"]] * 3000}, "$.values", "expected at most 256, found 3000"),
    ],
)
def test_what_a_page_cannot_ask_for_is_refused(
    server: LiveServer, asked: dict[str, object], where: str, message: str
) -> None:
    status, told = ask(server, "report", asked)
    assert status == 200
    assert told == {"error": {"message": message, "where": where, "hint": ""}}


ADDRESS = "http://127.0.0.1:1234/secret/"


@pytest.fixture
def addressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that ends when it has told its address."""

    def serve(*_: str, ready: Callable[[str], None], **__: object) -> None:
        ready(ADDRESS)

    monkeypatch.setattr("npuscope.verbs.serve.serve", serve)


def test_the_token_is_in_no_list_of_processes(
    addressed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser is started with the path of a page that only this user can read."""
    opened: dict[str, str] = {}

    def open_page(uri: str) -> None:
        opened[uri] = Path(uri.removeprefix("file://")).read_text()

    monkeypatch.setattr("webbrowser.open", open_page)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["serve", "a"]) == 0
    ((uri, page),) = opened.items()
    assert "secret" not in uri
    assert f"url={ADDRESS}" in page


def test_an_address_in_a_file_is_for_this_user_alone(addressed: None, tmp_path: Path) -> None:
    assert main(["serve", "a", "--json", str(tmp_path / "a.json"), "--no-browser"]) == 0
    assert json.loads((tmp_path / "a.json").read_text())["address"] == ADDRESS
    assert (tmp_path / "a.json").stat().st_mode & 0o077 == 0
