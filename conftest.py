"""For all checks: one thread for each process, and the place in a lesson where a failing cell is written."""
import os

import pytest

# Before anything imports torch, here and in the kernels that nbval starts. Two processes with two threads each crawl on two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


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
