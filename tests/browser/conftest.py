"""A real JupyterLab and a real Chromium, which playwright drives.

`make browser` runs these tests: it installs playwright and sets `RLKIT_BROWSER=1`. The browser is
the one of the system, none is downloaded; `CHROMIUM` names another one, `RLKIT_SCREENSHOTS` a
folder that keeps what was seen.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")
DESKTOP = {"width": 1280, "height": 1000}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium and JupyterLab; RLKIT_BROWSER=1")


def why_not() -> str | None:
    """Why the browser tests cannot run here; `None` when they can."""
    if os.environ.get("RLKIT_BROWSER") != "1":
        return "set RLKIT_BROWSER=1 to open the lessons in a browser"
    if chromium() is None:
        return "there is no chromium here; install one, or name it in CHROMIUM"
    missing = [name for name in ("jupyterlab", "playwright") if find_spec(name) is None]
    return f"not installed: {', '.join(missing)}; make browser installs both" if missing else None


def chromium() -> str | None:
    named = os.environ.get("CHROMIUM")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome"]
    return next((path for name in names if (path := shutil.which(name))), None)


class Window:
    """A browser's window.

    Attributes:
        page: playwright's own page: locators, mouse and keyboard.
        errors: what the page's console reported as errors, and uncaught exceptions.
    """

    def __init__(self, browser: Any, size: dict[str, int] = DESKTOP, **more: Any) -> None:
        self.page = browser.new_page(viewport=size, **more)
        self.page.set_default_timeout(60_000)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._look_at)

    def _look_at(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location.get('url', '')}")

    def wait_for(self, expression: str, seconds: float = 60, what: str = "") -> None:
        """Waits until a JavaScript expression is true."""
        from playwright.sync_api import TimeoutError as TooLate

        try:
            self.page.wait_for_function(expression, timeout=1000 * seconds, polling=300)
        except TooLate:
            pytest.fail(f"waited {seconds} s for {what or expression}")

    def screenshot(self, name: str, element: Any = None) -> None:
        """Keeps a picture, when `RLKIT_SCREENSHOTS` names a folder for it.

        Args:
            element: a locator to bring to the window's top first.
        """
        folder = os.environ.get("RLKIT_SCREENSHOTS")
        if folder is None:
            return
        if element is not None:
            element.first.evaluate("e => e.scrollIntoView({block: 'start'})")
            self.page.wait_for_timeout(500)
        self.page.screenshot(path=Path(folder) / f"{name}.png")


#: JavaScript for the state of the kernel of the notebook that is open.
_KERNEL = "[...window.jupyterapp.shell.widgets('main')][0]?.sessionContext?.session?.kernel?.status"


class Notebook(Window):
    """A notebook that is open in JupyterLab, its kernel idle."""

    def __init__(self, browser: Any, jupyterlab: tuple[str, str], file: str, **more: Any) -> None:
        super().__init__(browser, **more)
        address, token = jupyterlab
        self.page.goto(f"{address}/lab/tree/{file}?token={token}")
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=120_000)
        self.wait_for("window.jupyterapp?.restored.then(() => true)", 60, "JupyterLab")
        self.wait_for(f"{_KERNEL} === 'idle'", 120, "the kernel")
        self.page.locator(".jp-Spinner").wait_for(state="detached")
        assert self.page.locator(".jp-Dialog").count() == 0
        self.sheet = self.page.locator(".jp-Notebook")
        self.cells = self.page.locator(".jp-Notebook .jp-CodeCell")

    def command(self, name: str, **arguments: Any) -> None:
        """One of JupyterLab's commands, such as its menus give."""
        self.page.evaluate(
            "([name, given]) => void window.jupyterapp.commands.execute(name, given)",
            [name, arguments],
        )

    def hide_files(self) -> None:
        """More room for the notebook, which then is the current sheet."""
        self.command("application:toggle-left-area")
        self.page.evaluate(
            "window.jupyterapp.shell.activateById("
            "[...window.jupyterapp.shell.widgets('main')][0].id)"
        )

    def run_all(self, seconds: float = 300) -> None:
        """Runs all cells, and waits for the last; a cell that fails is told at once."""
        self.command("notebook:run-all-cells")
        self.wait_until_all_ran(seconds)

    def wait_until_all_ran(self, seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while not (self.is_idle() and all(re.search(r"\d", prompt) for prompt in self.prompts())):
            assert self.failures() == []
            assert time.monotonic() < end, f"not all cells ran in {seconds} s: {self.prompts()}"
            self.page.wait_for_timeout(1000)
        assert self.failures() == []

    def prompts(self) -> list[str]:
        """`[n]` for each code cell that has run; asked of the model, for some hide their code."""
        return self._of_code_cells("cell => `[${cell.model.executionCount ?? ' '}]`")

    def _of_code_cells(self, function: str) -> list[str]:
        """What a JavaScript function gives of each code cell."""
        return self.page.evaluate(
            "[...window.jupyterapp.shell.widgets('main')][0].content.widgets"
            f".filter(cell => cell.model.type === 'code').map({function})"
        )

    def is_idle(self) -> bool:
        return self.page.evaluate(f"{_KERNEL} === 'idle'")

    def failures(self) -> list[str]:
        """The tracebacks that are shown."""
        return self.page.locator(
            '.jp-Notebook [data-mime-type="application/vnd.jupyter.error"]'
        ).all_text_contents()

    def cell(self, text: str) -> Any:
        """The code cell with this text in it."""
        sources = self._of_code_cells("cell => cell.model.sharedModel.getSource()")
        return self.cells.nth(next(i for i, source in enumerate(sources) if text in source))

    def wear(self, theme: str) -> None:
        """The look of JupyterLab: `Light` or `Dark`."""
        self.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        light = str(theme == "Light").lower()
        self.wait_for(f"document.body.dataset.jpThemeLight === '{light}'", 60, theme)
        self.page.wait_for_timeout(2000)  # the figures are drawn anew


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, as playwright's browser."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture
def window(browser: Any) -> Iterator[Callable[..., Window]]:
    """Opens windows; all are closed at the end."""
    yield lambda **more: Window(browser, **more)
    for context in browser.contexts:
        context.close()


@pytest.fixture
def open_notebook(browser: Any, jupyterlab: tuple[str, str]) -> Iterator[Callable[..., Notebook]]:
    """Opens a notebook of the folder in a window; all are closed at the end."""
    yield lambda file, **more: Notebook(browser, jupyterlab, file, **more)
    for context in browser.contexts:
        context.close()


@pytest.fixture
def notebooks(tmp_path: Path) -> Path:
    """A copy of the notebooks, to be worked in."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(notebook, folder)
    return folder


@pytest.fixture
def jupyterlab(notebooks: Path, tmp_path: Path, serve: Callable[..., str]) -> tuple[str, str]:
    """JupyterLab on the copy of the notebooks: (its address, its token)."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    settings = tmp_path / "settings"
    # The settings that `make lab` and Binder use, in the form of a user's own.
    for plugin, values in json.loads((ROOT / "binder" / "overrides.json").read_text()).items():
        package, name = plugin.split(":")
        file = settings / package / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    token = secrets.token_hex(16)
    address = serve(
        "jupyterlab",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={notebooks}",
        "--ServerApp.jpserver_extensions={'jupyterlab_jupytext': False}",
        "--LabApp.expose_app_in_browser=True",
        ready="/api",
        RLKIT_MODE="fast",
        RLKIT_HEADLESS="",
        RLKIT_HOME=str(tmp_path / "home"),
        JUPYTERLAB_SETTINGS_DIR=str(settings),
        JUPYTERLAB_WORKSPACES_DIR=str(tmp_path / "workspaces"),
    )
    return address, token


@contextmanager
def serving(
    command: list[str], log: Path, ready: str, environment: dict[str, str]
) -> Iterator[None]:
    """A Python module that serves pages, from when `ready` answers until the end."""
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=environment,
            stdout=said,
            stderr=said,
            cwd=log.parent,
        )
    try:
        end = time.monotonic() + 120
        while not _answers(ready):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, f"no answer in 120 s: {log.read_text()}"
            time.sleep(0.2)
        yield
    finally:
        process.terminate()  # it ends its kernels
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts a module that serves pages on a free port, and gives its address."""
    with ExitStack() as running:

        def start(*command: str, ready: str = "/", **environment: str) -> str:
            port = free_port()
            address = f"http://127.0.0.1:{port}"
            options = ["--no-browser", f"--port={port}"]
            running.enter_context(
                serving(
                    [*command, *options],
                    tmp_path / f"{command[0]}.log",
                    address + ready,
                    {**os.environ, **environment},
                )
            )
            return address

        yield start


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return True  # it wants a password, or another page; it is there
    except OSError:
        return False
