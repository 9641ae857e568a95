"""For all checks: one thread for each process, the place in a lesson where a failing cell is written, and lesson 06's weights.

Lesson 06 needs the weights of a public model. They are fetched here, before any kernel starts: then no notebook shows a
progress bar. Where they cannot be had, the lesson is skipped, and the end of the run says so; with CI set, it fails.
"""
import importlib.util
import os
import sys
from pathlib import Path

import pytest

# Before anything imports torch, here and in the kernels that nbval starts. Two processes with two threads each crawl on two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SKIPPED = "lesson 06 is not checked"
ROOT = Path(__file__).resolve().parent


def pytest_configure(config):
    config.addinivalue_line("markers", "weights: needs the weights of all-MiniLM-L6-v2")
    if "MINILM_MISSING" in os.environ:                                   # a worker of xdist: the first process has looked
        return
    # The module alone, without the package: helpers would import torch into a process that runs no test.
    spec = importlib.util.spec_from_file_location("minilm", ROOT / "helpers" / "minilm.py")
    minilm = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(minilm)
    try:
        minilm.find_minilm()
        os.environ["MINILM_MISSING"] = ""
    except FileNotFoundError as missing:
        os.environ["MINILM_MISSING"] = str(missing)


def pytest_collection_modifyitems(items):
    for item in items:
        if sys.platform == "win32" and item.path.name.startswith("07_"):
            item.add_marker(pytest.mark.skip(reason="PyTorch's packages for Windows lack what torchrun needs"))
    needing = [item for item in items if item.path.name.startswith("06_") or item.get_closest_marker("weights")]
    if not needing or not os.environ["MINILM_MISSING"]:
        return
    if os.environ.get("CI"):
        raise pytest.UsageError(f"{SKIPPED}, and CI is set. {os.environ['MINILM_MISSING']}")
    for item in needing:
        item.add_marker(pytest.mark.skip(reason=SKIPPED))


def pytest_terminal_summary(terminalreporter):
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if SKIPPED in str(report.longrepr)]
    if skipped:
        terminalreporter.section(SKIPPED.upper(), red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} checks were skipped. {os.environ['MINILM_MISSING']}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """nbval says what was expected and what came; add which line of which lesson to look at."""
    report = (yield).get_result()
    if report.failed and hasattr(item, "cell_num"):
        from lessons import build
        lesson = build.ROOT / "lessons" / f"{item.path.stem}.md"
        if lesson.exists():
            line = build.line_of_cell(lesson, item.cell_num)
            report.sections.append(("In the lesson", f"lessons/{lesson.name}:{line}\n(above, + is what is stored, - is what came)"))
