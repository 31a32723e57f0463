"""A real JupyterLab and a real Chromium, driven through Chromium's own debugging protocol.

Nothing is installed for it: the protocol is JSON over a websocket, and a client for those
comes with JupyterLab. Set `RLKIT_BROWSER=1` to run these tests; `CHROMIUM` names another
browser, `RLKIT_SCREENSHOTS` a folder that keeps what was seen.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    "--window-size=1280,1000",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium and JupyterLab; RLKIT_BROWSER=1")


def why_not() -> str | None:
    """Why the browser tests cannot run here; `None` when they can."""
    if os.environ.get("RLKIT_BROWSER") != "1":
        return "set RLKIT_BROWSER=1 to open the lessons in a browser"
    if chromium() is None:
        return "there is no chromium here; install one, or name it in CHROMIUM"
    missing = [name for name in ("jupyterlab", "websocket") if find_spec(name) is None]
    return f"not installed: {', '.join(missing)}; make setup installs both" if missing else None


def chromium() -> str | None:
    named = os.environ.get("CHROMIUM")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome"]
    return next((path for name in names if (path := shutil.which(name))), None)


class Page:
    """One page of the browser.

    Attributes:
        errors: what the page's console reported as errors, and uncaught exceptions.
    """

    def __init__(self, address: str) -> None:
        import websocket

        self._socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        for name in ("Page", "Runtime", "Log"):
            self.send(f"{name}.enable")
        # A window that nobody looks at has no focus, and without it JupyterLab no current sheet.
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends one command and waits for its answer; events on the way are looked at."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._look_at(message)

    def _look_at(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.errors.append(
                " ".join(str(a.get("value", a.get("description"))) for a in parameters["args"])
            )
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 60, what: str = "") -> Any:
        """Waits until a JavaScript expression is true, and gives its value."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end, f"waited {seconds} s for {what or expression}"
            time.sleep(0.3)
        return value

    def open(self, address: str) -> None:
        self.send("Page.navigate", url=address)

    def click(self, element: str) -> None:
        """A click with the mouse on what a JavaScript expression finds."""
        self.evaluate(f"({element}).scrollIntoView({{block: 'center'}})")
        box = self.evaluate(f"(() => {{const b = ({element}).getBoundingClientRect();"
                            " return [b.x + b.width / 2, b.y + b.height / 2]})()")  # fmt: skip
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left",
                clickCount=1,
            )  # fmt: skip

    def press(self, key: str, code: int) -> None:
        """A key on the keyboard, to whatever has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def screenshot(self, name: str, element: str | None = None) -> None:
        """Keeps a picture, when `RLKIT_SCREENSHOTS` names a folder for it."""
        folder = os.environ.get("RLKIT_SCREENSHOTS")
        if folder is None:
            return
        if element is not None:
            self.evaluate(f"({element}).scrollIntoView({{block: 'start'}})")
            time.sleep(0.5)
        picture = self.send("Page.captureScreenshot", format="png")
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Page]]:
    """Chromium; call it for a fresh page."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    profile = tmp_path_factory.mktemp("chromium")
    process = subprocess.Popen(
        [str(chromium()), *CHROMIUM_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port_file = profile / "DevToolsActivePort"
        _wait(lambda: port_file.exists() and port_file.read_text().strip(), "Chromium")
        address = f"http://127.0.0.1:{port_file.read_text().splitlines()[0]}"

        def new_page() -> Page:
            request = urllib.request.Request(f"{address}/json/new?about:blank", method="PUT")
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Page(json.load(answer)["webSocketDebuggerUrl"])

        yield new_page
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def jupyterlab(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """JupyterLab on a copy of the notebooks: (its address, its token)."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    folder, settings = tmp_path / "notebooks", tmp_path / "settings"
    folder.mkdir()
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(notebook, folder)
    # The settings that `make lab` and Binder use, in the form of a user's own.
    for plugin, values in json.loads((ROOT / "binder" / "overrides.json").read_text()).items():
        package, name = plugin.split(":")
        file = settings / package / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    command = [
        *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", f"--port={port}", f"--IdentityProvider.token={token}"),
        f"--ServerApp.root_dir={folder}",
        "--ServerApp.jpserver_extensions={'jupyterlab_jupytext': False}",
        "--LabApp.expose_app_in_browser=True",
    ]
    environment = {
        **os.environ,
        "RLKIT_MODE": "fast",
        "RLKIT_HEADLESS": "",
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "workspaces"),
    }
    log = (tmp_path / "jupyterlab.log").open("w")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(lambda: process.poll() is None and _answers(f"{address}/api"), "JupyterLab", 120)
        yield address, token
    finally:
        process.terminate()  # it ends its kernels
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
        log.close()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def _wait(ready: Callable[[], Any], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"{what} did not start within {seconds} s"
        time.sleep(0.2)
