"""How many learners can run a lesson at once on this machine? Starts a JupyterHub here, for nobody else, and lets them.

    python -m pip install "jupyterhub>=6" && npm install -g configurable-http-proxy
    python benchmarks/class.py 01 1 4 8            # lesson 01, classes of 1, 4 and 8; Linux only, since it reads /proc

Each learner has a server and a kernel, opens a copy of the notebook, runs all cells at once with all others, types an answer
and saves. Outputs are compared with the stored ones; the servers are stopped and started again, and what was saved is compared
with what was run. OMP_NUM_THREADS is passed on to the kernels if it is set.
Prints a table in Markdown: for each class seconds until all servers run, to the first figure and for the lesson (median and slowest
learner), and of the processor (median); and the memory of a kernel and of a server, as RSS and as PSS, which counts what n
processes share as 1/n.
"""
import asyncio
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import nbformat
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
ANSWER = "# my own answer, typed by "
TOKEN = secrets.token_hex()
CONFIG = """
c.JupyterHub.bind_url = "http://127.0.0.1:{0}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{1}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{2}"
c.JupyterHub.spawner_class = "simple"          # all learners are one user of this machine: for trying only
c.JupyterHub.authenticator_class = "dummy"     # any name, any password: for trying only
c.Authenticator.allow_all = True
c.SimpleLocalProcessSpawner.home_dir_template = "{3}/{{username}}"
c.Spawner.args = {4}
c.Spawner.environment = {5}
c.Spawner.start_timeout = c.Spawner.http_timeout = 300
c.JupyterHub.concurrent_spawn_limit = 0
c.JupyterHub.services = [dict(name="class", api_token="{6}")]
c.JupyterHub.load_roles = [dict(name="class", services=["class"], scopes=["admin:users", "admin:servers", "access:servers"])]
"""


async def ask(method, url, body=None):
    """The answer of the hub's or a server's REST interface."""
    request = HTTPRequest(url, method, {"Authorization": f"token {TOKEN}"}, None if body is None else json.dumps(body),
                          request_timeout=600, allow_nonstandard_methods=True)
    answer = await AsyncHTTPClient().fetch(request)
    return json.loads(answer.body or "null")


async def start_server(hub, name):
    await ask("POST", f"{hub}/hub/api/users/{name}/server", {})
    while not (await ask("GET", f"{hub}/hub/api/users/{name}"))["servers"].get("", {}).get("ready"):
        await asyncio.sleep(0.3)


async def stop_server(hub, name):
    await ask("DELETE", f"{hub}/hub/api/users/{name}/server")
    while (await ask("GET", f"{hub}/hub/api/users/{name}"))["servers"]:
        await asyncio.sleep(0.3)


class Kernel:
    """A kernel of a learner's server, spoken to as a front end does."""
    async def start(self, server):
        session = {"path": "lesson.ipynb", "type": "notebook", "name": "", "kernel": {"name": "python3"}}
        kernel = (await ask("POST", f"{server}/api/sessions", session))["kernel"]["id"]
        address = f"{server}/api/kernels/{kernel}/channels".replace("http", "ws", 1)
        self.socket = await websocket_connect(HTTPRequest(address, headers={"Authorization": f"token {TOKEN}"},
                                                          request_timeout=600), max_message_size=1 << 27)
        return self

    async def run(self, code):
        """The outputs of a cell, as a notebook stores them."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "", "session": "class", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False}
        await self.socket.write_message(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "content": content,
                                                    "channel": "shell", "buffers": []}))
        outputs, waiting = [], {"idle", "reply"}
        while waiting:
            message = json.loads(await self.socket.read_message())
            if message["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            kind = message["msg_type"]
            if kind == "execute_reply":
                waiting.discard("reply")
            elif kind == "status" and message["content"]["execution_state"] == "idle":
                waiting.discard("idle")
            elif kind in ("stream", "display_data", "execute_result", "error"):
                outputs.append(nbformat.v4.output_from_msg(message))
        return outputs


def compared(outputs):
    """What must be equal: all text, as in the course's checks, and that a picture is there."""
    text, rest = {}, []
    for output in outputs:
        if output.output_type == "stream":
            text[output.name] = text.get(output.name, "") + output.text
        elif output.output_type == "error":
            rest.append((output.ename, output.evalue))
        elif "application/vnd.jupyter.widget-view+json" not in output.data:    # a progress bar that is gone again
            rest.append(("image/png" in output.data, output.data.get("text/plain")))
    return text, rest


def memory(pid):
    """RSS and PSS of a process, in MB."""
    lines = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:])
    return [int(lines[name].split()[0]) / 1024 for name in ("Rss", "Pss")]


async def attend(hub, name, lesson):
    """One learner's lesson: seconds to the first figure, to the end, and of the processor; memory; the notebook as it was saved."""
    server = f"{hub}/user/{name}"
    notebook = nbformat.read(next(NOTEBOOKS.glob(f"{lesson}_*.ipynb")), as_version=4)
    start, first_figure = time.monotonic(), None
    kernel = await Kernel().start(server)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            stored, cell.outputs = cell.outputs, await kernel.run(cell.source)
            if not {"nbval-ignore-output", "nbval-skip"} & set(cell.metadata.get("tags", [])):
                assert compared(cell.outputs) == compared(stored), f"{name}: {cell.source[:200]}\n{cell.outputs}"
            if first_figure is None and any("image/png" in output.get("data", {}) for output in cell.outputs):
                first_figure = time.monotonic() - start
    seconds = time.monotonic() - start
    answer = nbformat.v4.new_code_cell(f"{ANSWER}{name}\n"
                                           "import os, time; print(os.getpid(), os.getppid(), time.process_time())")
    answer.outputs = await kernel.run(answer.source)
    notebook.cells.append(answer)
    await ask("PUT", f"{server}/api/contents/lesson.ipynb", {"type": "notebook", "content": notebook})
    kernel_id, server_id, computed = answer.outputs[0].text.split()
    return first_figure, seconds, float(computed), memory(kernel_id), memory(server_id), notebook


async def hold_class(hub, lesson, size):
    names = [f"learner{i}-of-{size}" for i in range(size)]
    for name in names:
        await ask("POST", f"{hub}/hub/api/users/{name}")
    start = time.monotonic()
    await asyncio.gather(*(start_server(hub, name) for name in names))
    servers_ready = time.monotonic() - start
    results = await asyncio.gather(*(attend(hub, name, lesson) for name in names))
    first_figures, seconds, computed, kernels, servers, notebooks = zip(*results)
    for restart in (stop_server, start_server):
        await asyncio.gather(*(restart(hub, name) for name in names))
    for name, notebook in zip(names, notebooks):
        kept = nbformat.from_dict((await ask("GET", f"{hub}/user/{name}/api/contents/lesson.ipynb"))["content"])
        assert kept.cells[-1].source.startswith(ANSWER + name), f"{name}: the answer is lost"
        for cell, run in zip(kept.cells, notebook.cells, strict=True):
            assert cell.get("outputs") == run.get("outputs"), f"{name}: other outputs than those that were saved"
    await asyncio.gather(*(stop_server(hub, name) for name in names))
    (rss, pss), (server_rss, server_pss) = (map(statistics.median, zip(*group)) for group in (kernels, servers))
    print(f"| {size} | {servers_ready:.0f} | {statistics.median(first_figures):.0f} to {max(first_figures):.0f} | "
          f"{statistics.median(seconds):.0f} to {max(seconds):.0f} | {statistics.median(computed):.0f} | "
          f"{rss:.0f}, {pss:.0f} | {server_rss:.0f}, {server_pss:.0f} |", flush=True)


async def main(lesson, sizes):
    with tempfile.TemporaryDirectory() as folder:
        ports = []
        for _ in range(3):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                ports.append(free.getsockname()[1])
        passed_on = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "COURSE_DEVICE") if name in os.environ}
        args = ["--allow-root"] if os.getuid() == 0 else []
        Path(folder, "config.py").write_text(CONFIG.format(*ports, folder, args, passed_on, TOKEN), encoding="utf-8")
        with open(Path(folder, "log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen([sys.executable, "-m", "jupyterhub", "-f", "config.py"], cwd=folder, stdout=log, stderr=log)
        hub = f"http://127.0.0.1:{ports[0]}"
        try:
            for _ in range(120):
                try:
                    await ask("GET", f"{hub}/hub/api/")
                    break
                except (OSError, HTTPClientError):                       # the proxy answers before the hub does
                    await asyncio.sleep(0.5)
            threads = passed_on.get("OMP_NUM_THREADS", "not set")
            print(f"Lesson {lesson}, OMP_NUM_THREADS {threads}. Seconds: median to slowest learner; memory: RSS, PSS.\n\n"
                  "| learners | servers ready, s | first figure, s | lesson, s | processor, s | kernel, MB | server, MB |\n"
                  "|---|---|---|---|---|---|---|")
            for size in sizes:
                await hold_class(hub, lesson, size)
        except BaseException:
            print(Path(folder, "log").read_text(encoding="utf-8")[-3000:], file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    AsyncHTTPClient.configure(None, max_clients=1000)
    lesson, *sizes = sys.argv[1:] or ["01", "1", "4"]
    asyncio.run(main(lesson, map(int, sizes)))
