"""A real Chromium, and a real JupyterLab as `make lab` starts it. `make test-browser` runs this folder.

Plain `make test` leaves it out. Without Playwright or Chromium these tests fail and say so.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from lessons import build

# Chromium's own traffic (updates, translations) is switched off, so that every request seen is one of a page.
FLAGS = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
# What JupyterLab says when a kernel is shut down while it waits for an answer, and Notebook 7 whenever it opens a notebook.
NOT_OURS = ("Canceled future for", "Could not restore the debugger state", "(reading 'schema')", "'filebrowser:open-path' not registered")


def missing(what):
    pytest.fail(f"no {what}: `make test-browser` installs Playwright; Chromium comes from the system or `python -m playwright install chromium`",
                pytrace=False)


@pytest.fixture(scope="session")
def chromium():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright")
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if path is None and not Path(own).exists():
            missing("Chromium")
        as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path or own, args=FLAGS + as_root)
        yield browser
        browser.close()


@pytest.fixture
def new_page(chromium):
    """Pages that note what must not happen: an error in the console, a request that leaves this machine."""
    contexts, wrong = [], []

    def note(text):
        if not any(known in text for known in NOT_OURS):
            wrong.append(text)

    def open_page(**options):
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: message.type == "error" and note(f"console: {message.text}"))
        page.on("pageerror", lambda error: note(f"error: {error}"))
        page.on("request", lambda request: leaves(request.url) and wrong.append(f"request: {request.url}"))
        return page
    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


def leaves(url):
    return not url.startswith(("data:", "blob:", "file:", "about:", "http://127.0.0.1:", "ws://127.0.0.1:"))


# ------------------------------------------------------------------ JupyterLab
@pytest.fixture(scope="session")
def jupyter(tmp_path_factory):
    """The address of a server over a copy of the notebooks, and that copy's folder. Nothing of the user's is touched."""
    home = tmp_path_factory.mktemp("jupyter")
    shutil.copytree(build.ROOT / "notebooks", home / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = f"--no-browser --port={port} --IdentityProvider.token= --LabApp.expose_app_in_browser=True"
    flags += " --allow-root" * (hasattr(os, "geteuid") and os.geteuid() == 0)
    own = {f"JUPYTER_{name}_DIR": str(home / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{name}_DIR": str(home / name) for name in ("SETTINGS", "WORKSPACES")}
    with (home / "log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(
            ["make", "-C", home, "-f", build.ROOT / "Makefile", "-o", ".venv/installed", "lab", f"PY={sys.executable}", f"LAB_FLAGS={flags}"],
            env={**os.environ, **own, "PYTHONPATH": str(build.ROOT)}, stdout=log, stderr=log, start_new_session=True)
    address, started = f"http://127.0.0.1:{port}", time.monotonic()
    while not answers(address + "/api"):
        assert server.poll() is None and time.monotonic() - started < 90, (home / "log").read_text(encoding="utf-8")
        time.sleep(0.3)
    yield address, home / "notebooks"
    os.killpg(server.pid, signal.SIGTERM)
    server.wait()


def answers(url):
    try:
        return urllib.request.urlopen(url).status == 200
    except OSError:
        return False


class Notebook:
    """A notebook in a JupyterLab page, driven as its menu does."""
    def __init__(self, page, address, path):
        self.page = page
        page.goto(f"{address}/lab/tree/{path}?reset")
        page.wait_for_selector(".jp-Notebook", timeout=60_000)
        page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
                               timeout=90_000)                           # before that, "Run All" does nothing, and says nothing

    def command(self, name):
        self.page.evaluate("name => { window.done = false; jupyterapp.commands.execute(name).then(() => window.done = true); }", name)

    def run_all(self, seconds=240):
        """Run all cells; return how long it took until the first figure, and until the end."""
        self.command("notebook:clear-all-cell-outputs")
        self.page.wait_for_function("window.done")
        start, first = time.monotonic(), None
        self.command("notebook:run-all-cells")
        while not self.page.evaluate("window.done"):
            assert time.monotonic() - start < seconds, "it did not end"
            if first is None and any("image/png" in output.get("data", {}) for cell in self.cells() for output in cell["outputs"]):
                first = time.monotonic() - start
            time.sleep(0.2)
        return first, time.monotonic() - start

    def cells(self):
        """The code cells as nbformat has them, with their place in the notebook."""
        return self.page.evaluate("() => [...jupyterapp.shell.currentWidget.content.model.cells].map((cell, at) => "
                                  "({ ...cell.toJSON(), at })).filter(cell => cell.cell_type === 'code')")

    def show(self, cell):
        """Scroll there (JupyterLab draws only what is near) and return the cell's place in the page."""
        self.page.evaluate("""async at => {
            const notebook = jupyterapp.shell.currentWidget.content;
            await notebook.scrollToItem(at, 'center');
            notebook.widgets[at].node.dataset.at = at; }""", cell["at"])
        place = self.page.locator(f'[data-at="{cell["at"]}"]')
        place.wait_for()
        return place

    def run(self, cell, source=None):
        """Run one cell, after typing other code into it; return its outputs' text."""
        self.page.evaluate("""([at, source]) => {
            const notebook = jupyterapp.shell.currentWidget.content;
            notebook.activeCellIndex = at;
            if (source !== null) notebook.widgets[at].model.sharedModel.setSource(source); }""", [cell["at"], source])
        self.command("notebook:run-cell")
        self.page.wait_for_function("window.done")
        cell = next(other for other in self.cells() if other["at"] == cell["at"])
        return "".join("".join(output.get("text", "")) for output in cell["outputs"])

    def close(self):
        self.page.evaluate("() => window.jupyterapp?.shell.currentWidget.sessionContext.shutdown()")


@pytest.fixture
def open_notebook(jupyter, new_page):
    opened = []

    def open_(path, **options):
        opened.append(Notebook(new_page(**options), jupyter[0], path))
        return opened[-1]
    yield open_
    for notebook in opened:
        notebook.close()
