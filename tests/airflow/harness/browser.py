"""A real browser (Debian's `chromium`, headless) that opens pages, reads what they show, and takes pictures of them.

It is driven by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/): a page built by JavaScript
is ready when it shows what it should, which no fixed time tells.
"""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import requests
from PIL import Image
from websockets.sync.client import ClientConnection, connect

from airflow_process import kill_family, wait_for


def chromium() -> str | None:
    """Where chromium is, if it is installed."""
    return shutil.which("chromium")


class Refused(AssertionError):
    """The browser does not do what it was asked for; the message has its words."""


class Browser:
    """One chromium process with a profile of its own; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connections = contextlib.ExitStack()

    def __enter__(self) -> Browser:
        program = chromium()
        assert program is not None
        with (self.folder / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    "--headless=new",
                    "--no-sandbox",  # containers have no user namespaces to build it from
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--hide-scrollbars",
                    "--lang=en-US",
                    "--accept-lang=en-US",
                    "--force-color-profile=srgb",
                    "--remote-debugging-port=0",
                    f"--user-data-dir={self.folder / 'profile'}",
                    "about:blank",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        told = self.folder / "profile" / "DevToolsActivePort"
        wait_for(lambda: told.exists() and told.read_text().count("\n") > 0, "chromium listens", timeout=300)
        self._port = int(told.read_text().splitlines()[0])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connections.close()
        kill_family(self._process.pid)
        self._process.wait(timeout=30)

    def open(self, url: str, *, width: int = 1440, height: int = 900) -> Page:
        """Open a page in a window of ``width`` times ``height`` pixels."""
        answer = requests.put(f"http://127.0.0.1:{self._port}/json/new?about:blank", timeout=120)
        address = answer.json()["webSocketDebuggerUrl"]
        page = Page(self._connections.enter_context(connect(address, max_size=None, open_timeout=120)))
        page.size(width, height)
        page.go(url)
        return page


class Page:
    """An open page."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._call("Page.enable")

    def size(self, width: int, height: int) -> None:
        """Lay the page out anew for a window of this many pixels."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def go(self, url: str) -> None:
        """Begin to load another address."""
        self._call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """What a JavaScript expression says, as a value."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self) -> str:
        """All text that the page shows."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def wait_for_text(self, *words: str, timeout: float = 300) -> str:
        """Wait until the page has been read to its end and shows all of ``words``; returns its text."""
        seen = ""

        def shown() -> str | None:
            nonlocal seen
            with contextlib.suppress(Refused):  # a page that leads to another one is gone between question and answer
                whole = self.evaluate("document.readyState") == "complete"
                seen = self.text()
                return seen if whole and all(word in seen for word in words) else None
            return None

        try:
            return wait_for(shown, "a page's text", timeout=timeout)
        except TimeoutError as late:
            raise TimeoutError(f"{late}: {words} in {seen!r}") from None

    def picture(self, path: Path) -> Image.Image:
        """Take a picture of the window into a PNG file of 256 colours, which is enough for a page; returns it."""
        data = base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
        return picture

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=120))
            if answer.get("id") == number:  # everything else is an event
                if "error" in answer:
                    raise Refused(f"{method}: {answer['error']}")
                return dict(answer["result"])
