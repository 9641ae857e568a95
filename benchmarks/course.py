"""What the course itself costs: seconds and memory of each lesson, and of importing helpers; the size of what is installed.

    python benchmarks/course.py [01 02 ...]      # about 3 minutes; memory on Linux and macOS

Each lesson runs from a kernel that is not yet there, cell after cell, as with Run All; on one thread, as in the tests. The first
figure is the first output with a picture in it. Memory is the most that the kernel ever held.
"""
import os
import statistics
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import nbclient
import nbformat

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
SAY_MEMORY = "import resource, sys; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == 'darwin' else 1e3))"
IMPORTS = ["torch", "torch, helpers", "torch, helpers; from helpers import d2l"]
RUNS = 5


def lesson_costs(path):
    """Seconds to the first figure, seconds of the lesson, its slowest cells as (seconds, source), MB of the kernel."""
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}})
    start, first_figure, cells = time.perf_counter(), None, []
    with client.setup_kernel(env={**os.environ, "OMP_NUM_THREADS": "1"}):
        for i, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            before = time.perf_counter()
            client.execute_cell(cell, i)
            cells.append((time.perf_counter() - before, cell.source))
            if first_figure is None and any("image/png" in output.get("data", {}) for output in cell.outputs):
                first_figure = time.perf_counter() - start
        whole = time.perf_counter() - start
        client.execute_cell(nbformat.v4.new_code_cell(SAY_MEMORY), 0)
        memory = float(client.nb.cells[0].outputs[0].text)
    return first_figure, whole, cells, memory


def import_costs(what):
    """Median seconds and MB of a Python that imports this and ends."""
    code = f"import time; start = time.perf_counter(); import {what}; print(time.perf_counter() - start); {SAY_MEMORY}"
    runs = []
    for _ in range(RUNS):
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True,
                                 cwd=NOTEBOOKS.parent).stdout
        runs.append([float(number) for number in printed.split()])
    return map(statistics.median, zip(*runs))


def installed():
    """{package: MB of its files}, the largest first."""
    sizes = {}
    for package in metadata.distributions():
        files = [package.locate_file(file) for file in package.files or []]
        sizes[package.metadata["Name"]] = sum(os.path.getsize(file) for file in files if os.path.isfile(file)) / 1e6
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def main(wanted):
    print("| lesson | first figure, s | all cells, s | kernel, MB | slowest cell |\n|---|---|---|---|---|")
    for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        if not wanted or path.name[:2] in wanted:
            first_figure, whole, cells, memory = lesson_costs(path)
            seconds, source = max(cells)
            print(f"| {path.stem} | {first_figure:.1f} | {whole:.1f} | {memory:.0f} | {seconds:.1f} s: "
                  f"`{source.splitlines()[-1].strip()[:60]}` |", flush=True)
    print("\n| import | s | MB |\n|---|---|---|")
    for what in IMPORTS:
        seconds, memory = import_costs(what)
        print(f"| `{what}` | {seconds:.2f} | {memory:.0f} |", flush=True)
    sizes = installed()
    print(f"\nInstalled: {sum(sizes.values()):.0f} MB in {len(sizes)} packages; the largest: "
          + ", ".join(f"{name} {size:.0f}" for name, size in list(sizes.items())[:8]) + ".")


if __name__ == "__main__":
    main(sys.argv[1:])
