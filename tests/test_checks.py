"""Exercise checks: solutions pass, every catalogued mistake is named, and nothing wrong gets through."""
import ast
import importlib
import pkgutil

import pytest
import torch

import helpers
from helpers import checks, course
from helpers.checks import Exercise, Mistake
from lessons.build import lessons, read_lesson

EXERCISES = {f"{module.name}.{name}": exercise
             for module in pkgutil.iter_modules(checks.__path__)
             for name, exercise in vars(importlib.import_module(f"helpers.checks.{module.name}")).items()
             if hasattr(exercise, "verdict") and not isinstance(exercise, type)}
MISTAKES = [(name, mistake) for name, exercise in EXERCISES.items() for mistake in exercise.mistakes]


def exercises_in(path):
    """(stub, check, solution) of each exercise of a lesson: three code cells in this order."""
    code = [cell for cell in read_lesson(path)[1] if cell.cell_type == "code"]
    return [tuple(cell.source for cell in code[i - 2:i + 1]) for i, cell in enumerate(code)
            if "solution" in cell.metadata.get("tags", [])]


def imports_of(path):
    """The names that a lesson imports, and those that it shows with #@save: its solutions may use them."""
    namespace = {}
    for cell in read_lesson(path)[1]:
        if cell.source.startswith("#@save "):
            name = cell.source.split()[1]
            namespace[name] = getattr(helpers, name)
        elif cell.cell_type == "code":
            imports = [node for node in ast.parse(cell.source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
            exec(compile(ast.Module(imports, []), path.name, "exec"), namespace)
    return namespace


@pytest.fixture(autouse=True)
def english():
    course.start("en")
    yield
    course.start("en")


@pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem)
def test_a_lessons_stubs_wait_and_its_solutions_pass(path, capsys):
    found = exercises_in(path)
    assert len(found) >= 3
    for stub, check, solution in found:
        for answer, words in ((stub, "Waiting for your answer"), (solution, "Right:")):
            namespace = imports_of(path)
            exec(answer, namespace)
            exec(check, namespace)
            assert capsys.readouterr().out.startswith(words), (check, words)


@pytest.mark.parametrize("name, mistake", MISTAKES, ids=[f"{name}: {mistake}" for name, mistake in MISTAKES])
def test_every_mistake_is_named_in_both_languages(name, mistake):
    exercise = EXERCISES[name]
    assert exercise.mistakes[mistake].en in exercise.verdict(exercise.mistakes[mistake].function)
    course.start("zh")
    assert exercise.mistakes[mistake].zh in exercise.verdict(exercise.mistakes[mistake].function)


@pytest.mark.parametrize("name", EXERCISES)
def test_a_stub_waits_and_the_right_function_passes(name):
    exercise = EXERCISES[name]
    assert exercise.verdict(lambda *arguments: None).startswith("Waiting")
    assert exercise.verdict(exercise.right).startswith("Right")


def test_every_lesson_imports_its_checks_from_a_module_that_is_tested_here():
    assert {name.split(".")[0] for name in EXERCISES} == {module.name for module in pkgutil.iter_modules(checks.__path__)}


# ------------------------------------------------------------------ the machinery, on a small exercise
double = Exercise(right=lambda X: 2 * X, cases={("three numbers", "三个数"): (torch.tensor([1.0, 2.0, 3.0]),), ("one", "一个数"): (torch.ones(1),)},
                  mistakes={"squared": Mistake(lambda X: X**2, "You square. Hint: times 2.", "你求了平方。提示：乘 2。")})


def in_place(X):
    X *= 2
    return X


@pytest.mark.parametrize("function, words", [
    (lambda X: X**2, "You square. Hint: times 2."),
    (in_place, "changes the tensors that it was given"),
    (lambda X: 2 * X + 1e-2, "In the case three numbers your function returns"),
    (lambda X: 2 * X.double(), "In the case three numbers"),
    (lambda X: 2 * X[None], "the shape is (1, 3); it should be (3,)"),
    (lambda X: (2 * X).tolist(), "returns a list; it should be a Tensor"),
    (lambda X: 2 * X if len(X) == 3 else 5 * X, "In the case one"),
    (lambda X: X.double_it(), "stops with AttributeError"),
    (lambda X: X * torch.nan, "In the case three numbers"),
    (lambda X: 2 * X if len(X) == 3 else None, "In the case one"),
])
def test_what_is_wrong_never_passes_and_is_said(function, words):
    verdict = double.verdict(function)
    assert words in verdict and not verdict.startswith(("Right", "Waiting"))


def hidden(scores, valid_lens):
    return torch.arange(scores.shape[-1]) >= valid_lens[:, None, None]


def book_softmax(scores, valid_lens):
    """Right in simple cases, and in place."""
    scores[hidden(scores, valid_lens).expand_as(scores)] = -1e6
    return torch.softmax(scores, dim=-1)


@pytest.mark.parametrize("name, function, words", [
    ("masked_softmax", lambda S, lens: torch.softmax(S.masked_fill(hidden(S, lens), -3e4), -1).masked_fill(hidden(S, lens), 0),
     "A fixed fill"),
    ("masked_softmax", book_softmax, "A fixed fill"),
    ("masked_softmax", lambda S, lens: torch.softmax(S + hidden(S, lens) * -1e9, -1), "Not yet"),
    ("masked_softmax", lambda S, lens: helpers.masked_softmax(S.float(), lens), "the type is torch.float32"),
    ("masked_softmax", lambda S, lens: helpers.masked_softmax(S, lens) + (lens == 0)[:, None, None].to(S.dtype), "a length of 0"),
    ("masked_softmax", lambda S, lens: (helpers.masked_softmax(S, lens),), "returns a tuple"),
    ("masked_softmax", lambda S: S, "TypeError"),
    ("attention", lambda Q, K, V: torch.softmax(Q @ K.transpose(1, 2) / 2, -1) @ V, "In the case batch of 2"),
    ("attention", lambda Q, K, V: torch.softmax(Q @ K.transpose(1, 2) / V.shape[-1] ** 0.5, -1) @ V, "In the case batch of 2"),
    ("attention", lambda Q, K, V: torch.softmax(Q @ K / 2, -1) @ V, "RuntimeError"),
    ("additive_score", lambda Q, K, W_q, W_k, w_v: torch.relu((Q @ W_q)[:, :, None] + (K @ W_k)[:, None]) @ w_v, "In the case"),
    ("additive_score", lambda Q, K, W_q, W_k, w_v: torch.tanh((Q @ W_q.T)[:, :, None] + (K @ W_k)[:, None]) @ w_v, "RuntimeError"),
    ("alignment", lambda W, english: [english[int((row > 0.5).nonzero()[0])] for row in W], "IndexError"),
    ("alignment", lambda W, english: list(W), "Not yet"),
    ("alignment", lambda W, english: tuple(english[j] for j in W.argmax(-1)), "returns a tuple"),
])
def test_answers_that_are_nearly_right_do_not_pass_and_are_not_misnamed(name, function, words):
    verdict = EXERCISES[f"cross_attention.{name}_exercise"].verdict(function)
    assert words in verdict and not verdict.startswith(("Right", "Waiting")), verdict


@pytest.mark.parametrize("name, function", [
    ("masked_softmax", lambda S, lens: torch.softmax(S.masked_fill(hidden(S, lens), float("-inf")), -1).nan_to_num(0)),
    ("masked_softmax", lambda S, lens: torch.stack([torch.nn.functional.pad(torch.softmax(s[:, :n], -1), (0, s.shape[1] - n))
                                                    for s, n in zip(S, lens.tolist())])),
    ("attention", torch.nn.functional.scaled_dot_product_attention),
])
def test_another_right_way_passes(name, function):
    assert EXERCISES[f"cross_attention.{name}_exercise"].verdict(function).startswith("Right")


def test_the_language_is_that_of_the_notebook():
    course.start("zh")
    assert double.verdict(lambda X: None).startswith("等你作答") and double.verdict(lambda X: 2 * X).startswith("正确")
    assert "你求了平方" in double.verdict(lambda X: X**2)
    with pytest.raises(ValueError, match="fr"):
        course.start("fr")
