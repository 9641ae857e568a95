"""Measure, and write the tables into benchmarks/README.md, each between two marks that name its script.

    python benchmarks/report.py [attention growth course ...]      # make bench: these three

What a script prints is Markdown; above it go the command, the day, the machine and the versions.
"""
import datetime
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMANDS = {"attention": [], "growth": [], "course": [], "class": ["01", "1", "4", "8", "16"]}     # and their arguments
USUAL = ["attention", "growth", "course"]                                # class needs a JupyterHub
OF_THE_SHELL = ("OMP_NUM_THREADS", "COURSE_DEVICE")                      # what changes a measurement


def machine():
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        cpu = re.search(r"model name\s*: (.*)|$", Path("/proc/cpuinfo").read_text(encoding="utf-8"))[1] or cpu
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "matplotlib"))
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {versions}"


def measured(name):
    """What goes between the marks."""
    command = [f"benchmarks/{name}.py", *COMMANDS[name]]
    process = subprocess.Popen([sys.executable, *command], cwd=HERE.parent, stdout=subprocess.PIPE, encoding="utf-8",
                               env={**os.environ, "PYTHONPATH": str(HERE.parent)})
    lines = []
    for line in process.stdout:                                          # it takes minutes: show what is there
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait():
        sys.exit(f"{' '.join(command)} failed")
    settings = "".join(f"{variable}={os.environ[variable]} " for variable in OF_THE_SHELL if variable in os.environ)
    return f"`{settings}python {' '.join(command)}`, {datetime.date.today()}: {machine()}.\n\n{''.join(lines).strip()}"


def main(names):
    unknown = set(names) - set(COMMANDS)
    if unknown:
        sys.exit(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(COMMANDS)}")
    path = HERE / "README.md"
    for name in names or USUAL:
        text = measured(name)
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = path.read_text(encoding="utf-8").split(begin)
        path.write_text(f"{before}{begin}{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
