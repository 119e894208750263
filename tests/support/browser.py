"""A real Chromium without a window, spoken to over a pipe: no driver and no library.

The DevTools protocol is JSON with a null byte behind each message, here on file
descriptors 3 and 4. What the page logs, throws and asks the network for is kept, so that
a test can say that there was none.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Browser", "Tab", "find_chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 120.0
BETWEEN_PAGES = (
    "Inspected target navigated or closed",
    "Execution context was destroyed.",
    "Cannot find default execution context",
    "Cannot find context with specified id",
)
"""What is answered where one page makes way for another."""


def find_chromium() -> str | None:
    """Return the program, which CHROMIUM may name, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class BetweenPages(RuntimeError):
    """What was asked of a page that has just made way for another."""


class Browser:
    """One browser for many tabs."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="havasu-chromium-")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        log = os.open(Path(self._profile) / "log", os.O_CREAT | os.O_WRONLY)
        # The ends are moved out of the way first, for 3 and 4 may be among them.
        moved = [os.dup(each) for each in (theirs_in, theirs_out)]
        arguments = [program, *OPTIONS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = os.posix_spawn(
            program,
            arguments,
            {**os.environ, "HOME": self._profile},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
                (os.POSIX_SPAWN_DUP2, moved[0], 13),
                (os.POSIX_SPAWN_DUP2, moved[1], 14),
                (os.POSIX_SPAWN_DUP2, 13, 3),
                (os.POSIX_SPAWN_DUP2, 14, 4),
            ],
            setpgroup=0,
        )
        for each in (*moved, theirs_in, theirs_out, log):
            os.close(each)
        self._in, self._out = ours_in, ours_out
        self._rest = b""
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._tabs: dict[str, Tab] = {}

    def close(self) -> None:
        """End the browser and what it started."""
        os.close(self._out)
        os.close(self._in)
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, session: str | None = None, /, **parameters: Any) -> Any:
        """Ask for something and return the answer."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        deadline = time.monotonic() + PATIENCE
        while number not in self._answers:
            self.listen(deadline - time.monotonic())
            if time.monotonic() > deadline:
                raise TimeoutError(f"{method} was not answered")
        answer = self._answers.pop(number)
        if "error" in answer:
            said = str(answer["error"].get("message", answer["error"]))
            kind = BetweenPages if said in BETWEEN_PAGES else RuntimeError
            raise kind(f"{method}: {answer['error']}")
        return answer["result"]

    def listen(self, seconds: float) -> None:
        """Take in what the browser says within some time."""
        ready, _, _ = select.select([self._in], [], [], max(0.0, seconds))
        if not ready:
            return
        data = os.read(self._in, 1 << 20)
        if not data:
            raise ConnectionError("the browser ended")
        *messages, self._rest = (self._rest + data).split(b"\0")
        for each in messages:
            message = json.loads(each)
            if "id" in message:
                self._answers[message["id"]] = message
            elif (tab := self._tabs.get(message.get("sessionId", ""))) is not None:
                tab.heard(message["method"], message["params"])

    def open(self) -> Tab:
        """Return a new tab."""
        target = self.call("Target.createTarget", url="about:blank")
        found = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(self, found["sessionId"])
        self._tabs[found["sessionId"]] = tab
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        return tab


class Tab:
    """One page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.problems: list[str] = []
        """What was logged as a warning or worse, or thrown."""
        self.requests: list[str] = []
        """What was asked for, by address; parts of the page itself are not asked for."""

    def forget(self) -> None:
        """Be as a new tab."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.prefers()
        self.resize(1280, 860)
        self.problems.clear()
        self.requests.clear()

    def call(self, method: str, /, **parameters: Any) -> Any:
        """Ask for something of this page and return the answer."""
        return self._browser.call(method, self._session, **parameters)

    def heard(self, method: str, what: Mapping[str, Any]) -> None:
        """Keep what went wrong and what was asked for."""
        if method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", "")
            self.problems.append(f"{details['text']} {thrown}")
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            self.problems.append(f"{what['type']}: {what['args']}")
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{what['entry']['source']}: {what['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {what['message']}")

    def resize(self, width: int, height: int, ratio: float = 1) -> None:
        """Make the page so large."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=ratio,
            mobile=False,
        )

    def go(self, address: str) -> None:
        """Open an address and wait until the page says that it is ready."""
        self.call("Page.navigate", url=address)
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def back(self) -> None:
        """Go to the page before, as by the browser's button; wait for what it shows."""
        history = self.call("Page.getNavigationHistory")
        before = history["entries"][history["currentIndex"] - 1]
        self.call("Page.navigateToHistoryEntry", entryId=before["id"])

    def run(self, code: str) -> Any:
        """Return the value of an expression, awaited."""
        found = self.call(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"]["exception"].get("description", found))
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self._is(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never: {condition}; {self.problems}")
            self._browser.listen(0.02)

    def _is(self, condition: str) -> bool:
        """Say whether an expression is true; nothing is while one page makes way for another."""
        try:
            return bool(self.run(f"!!({condition})"))
        except BetweenPages:
            return False

    def text(self, selector: str) -> str:
        """Return the text of the first element that fits."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        """Click into the middle of an element, as a mouse does."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoViewIfNeeded(); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.mouse("mousePressed", *box)
        self.mouse("mouseReleased", *box)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Do something with the left button."""
        buttons = 0 if kind == "mouseReleased" else 1
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left",
            buttons=buttons,
            clickCount=1,
            **more,
        )

    def key(self, *keys: str) -> None:
        """Press keys one after another: letters, or names such as `ArrowDown`."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "Home": 36, "End": 35, "PageDown": 34}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
            common = {"key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def prefers(self, **features: str) -> None:
        """Say what the reader prefers: `prefers(color_scheme="dark")`."""
        wishes = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", features=wishes)

    def screenshot(self, path: Path | None = None) -> bytes:
        """Return what the page looks like as PNG; also write it where asked."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(data)
        return data
