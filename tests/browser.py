"""A headless Chromium for tests: pages are opened, keys pressed, expressions evaluated, over the DevTools protocol.

The protocol runs through a pair of pipes (``--remote-debugging-pipe``): JSON messages that end in a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

__all__ = ["CHROMIUM", "Browser", "needs_chromium"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
_PATIENCE = 120.0


class Browser:
    """One browser with one page.  `errors` collects what pages report on their console or throw."""

    def __init__(self, width: int = 1400, height: int = 900) -> None:
        self.profile = tempfile.mkdtemp(prefix="hlotool-browser-")
        to_read, self.to_write = os.pipe()
        self.to_hear, to_say = os.pipe()
        command = (
            f'exec "{CHROMIUM}" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars '
            f'--no-first-run --user-data-dir="{self.profile}" --window-size={width},{height} --remote-debugging-pipe '
            f"about:blank 3<&{to_read} 4>&{to_say}"
        )
        self.process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(to_read, to_say),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_say)
        self.buffer = b""
        self.last = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.last += 1
        number = self.last
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.hear()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def hear(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.to_hear], [], [], _PATIENCE)
            data = os.read(self.to_hear, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self.buffer += data
        text, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self.events.append(message)
        details = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(details["exceptionDetails"].get("exception", {}).get("description", details)))
        elif message.get("method") == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.errors.append(str(details["entry"]["text"]))
        return message

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a file and wait until it is loaded; an address that only differs in its fragment is loaded anew."""
        for address in ("about:blank", page.resolve().as_uri() + fragment):
            self.events.clear()
            self.call("Page.navigate", url=address)
            while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
                self.hear()

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        sent = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, as JSON carries it; RuntimeError when it throws."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"].get("exception", {}).get("description", result)))
        return result["result"].get("value")

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key; 8 is Shift."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)

    def type(self, text: str) -> None:
        for character in text:
            self.press(character)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def settle(self) -> None:
        """Wait until everything that was asked for is painted."""
        self.evaluate("new Promise(done => setTimeout(() => requestAnimationFrame(() => done(0)), 350))")

    def dark(self, on: bool) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path) -> bytes:
        """Write a PNG of the page; its bytes."""
        content = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        path.write_bytes(content)
        return content

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_write)
        os.close(self.to_hear)
        shutil.rmtree(self.profile, ignore_errors=True)
