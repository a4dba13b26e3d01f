"""The live view's server: this computer only, and there only who knows the address.

Whatever runs on this computer can reach a loopback port, and any page in the browser can send
requests to it. So an address holds a random token, a request has to name the host it was made
for (a foreign name that leads here is refused), and a question must come from our own page. No
path is ever looked up in the file system: there is one page and two questions.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

import orjson

from npuscope.errors import InternalError, NpuscopeError, OutputError, UsageError
from npuscope.live import answers as program_answers
from npuscope.live.setting import Setting
from npuscope.report.html.page import as_json

log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
_MOST_BYTES = 64 << 10  # of a question
_TOKEN_BYTES = 18
_MOST_WAITING = 1024  # connections that no thread has taken yet
_PATIENCE_S = 60.0  # for a client that connects and says nothing
# For every answer: kept nowhere, shown in no other page's frame, and its address told to nobody.
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Answers(Protocol):
    """Who answers for a library: modules of this package."""

    def first_page(self, library: Any, first: Setting) -> str: ...
    def report(self, library: Any, question: object) -> dict[str, Any]: ...
    def comparison(self, library: Any, question: object) -> dict[str, Any]: ...


class LiveServer(ThreadingHTTPServer):
    """One thread per connection; all share the library."""

    daemon_threads = True
    request_queue_size = _MOST_WAITING

    def __init__(
        self, library: Any, first: Setting, port: int = 0, answers: Answers = program_answers
    ) -> None:
        self.library, self.first, self.answers = library, first, answers
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise OutputError(
                f"the port cannot be used: {error.strerror or error}",
                where=f"--port {port}",
                hint="leave out --port to use a free one",
            ) from None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that a request may use for us; a browser leaves out the usual port."""
        ports = ("", f":{self.port}") if self.port == 80 else (f":{self.port}",)
        return tuple(name + port for name in _NAMES for port in ports)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that left in the middle is no news."""
        log.debug("a connection was lost", exc_info=True)


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version = "npuscope"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE_S

    def do_GET(self) -> None:
        self._answer(self._page)

    def do_POST(self) -> None:
        self._answer(self._question)

    def _answer(self, make: Callable[[], tuple[str, bytes]]) -> None:
        try:
            if self.headers.get_all("Host") not in [[name] for name in self.server.hosts]:
                raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "this host name is not served")
            kind, body = make()
        except _Refused as refusal:
            # What was sent along is not read, so it must not be taken for the next request.
            self.close_connection = True
            self._send(refusal.status, "text/plain; charset=utf-8", f"{refusal}\n".encode())
            return
        self._send(HTTPStatus.OK, kind, body)

    def _page(self) -> tuple[str, bytes]:
        if self._inside() != "":
            raise _Refused(HTTPStatus.NOT_FOUND, "no such page")
        text = self.server.answers.first_page(self.server.library, self.server.first)
        return "text/html; charset=utf-8", text.encode("utf-8", "backslashreplace")

    def _question(self) -> tuple[str, bytes]:
        answers = self.server.answers
        ask = {"report": answers.report, "compare": answers.comparison}.get(self._inside())
        if ask is None:
            raise _Refused(HTTPStatus.NOT_FOUND, "no such page")
        self._check_origin()
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10):
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if int(length) > _MOST_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too long")
        body = self.rfile.read(int(length))
        try:
            reply = ask(self.server.library, _parsed(body))
        except NpuscopeError as error:
            reply = {"error": _error(error)}
        except OSError as error:
            where = str(error.filename or "")
            reply = {"error": {"message": error.strerror or str(error), "where": where, "hint": ""}}
        except Exception as error:  # one question must not end the others
            log.exception("a request failed")
            reply = {"error": _error(InternalError(f"this is a bug: {error}"))}
        return "application/json", as_json(reply).encode("utf-8", "backslashreplace")

    def _check_origin(self) -> None:
        """Pages of others may send to us, but they cannot hide that they are others."""
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{name}" for name in self.server.hosts]:
            raise _Refused(HTTPStatus.FORBIDDEN, "request from another page")
        if self.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise _Refused(HTTPStatus.FORBIDDEN, "request from another page")
        if self.headers.get_content_type() != "application/json":
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")

    def _inside(self) -> str:
        """The path behind the token."""
        # The query is the tab's own note of what it shows.
        token, separator, rest = self.path.partition("?")[0].removeprefix("/").partition("/")
        allowed = hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode())
        if not allowed or not separator:
            raise _Refused(HTTPStatus.FORBIDDEN, "the address lacks the printed token")
        return rest

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        # The token is in the path: logs are read by others.
        log.debug("%s", (format % args).replace(self.server.token, "TOKEN"))


def _parsed(body: bytes) -> object:
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"not JSON: {error}") from None
    return document


def _error(error: NpuscopeError) -> dict[str, str]:
    return {"message": error.message, "where": error.where, "hint": error.hint}
