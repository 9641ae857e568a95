"""Files are UTF-8 on every system, also where the system's own encoding cannot write Chinese, or is gbk as on a Chinese Windows."""
import ast
import os
import subprocess
import sys
import textwrap

import pytest

from lessons import build

CODE = [build.ROOT / "conftest.py",
        *(path for folder in ("helpers", "lessons", "tests", "benchmarks") for path in (build.ROOT / folder).rglob("*.py"))]


def left_to_the_system(code):
    """The calls that read or write text and do not say in which encoding."""
    for call in ast.walk(ast.parse(code)):
        if isinstance(call, ast.Call):
            name, said = ast.unparse(call.func), {keyword.arg for keyword in call.keywords}
            texts = [value.value for value in [*call.args, *(keyword.value for keyword in call.keywords)]
                     if isinstance(value, ast.Constant) and isinstance(value.value, str)]
            reads = name.split(".")[-1] in ("open", "read_text", "write_text", "fdopen") and name != "Image.open"
            binary = any("b" in text and set(text) <= set("rwxab+") for text in texts)
            if (reads and not binary or said & {"text", "universal_newlines"}) and not said & {"encoding", "errors"}:
                yield ast.unparse(call)


@pytest.mark.parametrize("code, found", [
    ("open('a')", 1), ("path.open('w')", 1), ("path.read_text()", 1), ("path.write_text(a)", 1), ("run(a, text=True)", 1),
    ("open('a', 'rb')", 0), ("open('a', mode='wb')", 0), ("path.read_text(encoding='utf-8')", 0), ("Image.open('a')", 0),
    ("run(a, text=True, encoding='utf-8')", 0), ("path.read_bytes()", 0)])
def test_what_is_left_to_the_system_is_found(code, found):
    assert len(list(left_to_the_system(code))) == found


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.relative_to(build.ROOT).as_posix())
def test_no_encoding_is_left_to_the_system(path):
    assert list(left_to_the_system(path.read_text(encoding="utf-8"))) == []


def test_nor_in_the_set_up_cell(monkeypatch):
    monkeypatch.setattr(build, "repository", lambda: "https://github.com/someone/attention")
    assert list(left_to_the_system(build.setup_code(["d2l"], "zh"))) == []


def test_lessons_and_pages_are_made_where_the_system_knows_no_chinese():
    """So the libraries read and write UTF-8 as well."""
    script = textwrap.dedent("""\
        import locale
        from lessons import build, export
        path = build.lessons()[0]
        assert "交叉注意力" in build.edition(path, "zh").cells[0].source
        assert "一门可以运行的注意力课程" in export.index_page(export.Page())
        print(locale.getpreferredencoding())""")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "gbk"}
    done = subprocess.run([sys.executable, "-"], input=script.encode("utf-8"), cwd=build.ROOT, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode("gbk", "replace")
    assert sys.platform != "linux" or b"utf" not in done.stdout.lower()
