"""Exercise checks: try the learner's function on cases that tell the usual mistakes apart, and name the one it makes.

An exercise is the right function, some cases, and a catalogue of mistakes, each a wrong function with a hint. If the
learner's results are wrong and equal those of a wrong function in every case, that is the mistake.
"""
import copy
from typing import Callable, NamedTuple

import torch

from helpers.course import say


class Mistake(NamedTuple):
    """function: one that makes this mistake. en, zh: what it is, and a hint."""
    function: Callable
    en: str
    zh: str


class Exercise(NamedTuple):
    """right: a correct function. mistakes: {name: Mistake}.

    cases: {name: arguments}, where a name with words in it is a pair, (English, Chinese).
    """
    right: Callable
    cases: dict
    mistakes: dict

    def __call__(self, function):
        print(self.verdict(function))

    def verdict(self, function):
        """What to tell the learner about their function, in the notebook's language."""
        tried = [_try(function, arguments) for arguments in self.cases.values()]
        if all(outcome.result is None and outcome.error is None for outcome in tried):
            return say("Waiting for your answer: fill in the function above (it must return its result) and run both cells "
                       "again.",
                       "等你作答：把上面的函数补全（别忘了用 return 返回结果），再依次运行这两个单元格。")
        expected = [_try(self.right, arguments) for arguments in self.cases.values()]
        wrong = [i for i, (got, want) in enumerate(zip(tried, expected)) if not _same(got, want)]
        if wrong:
            return self._named(tried, wrong[0]) or self._first_difference(wrong[0], tried, expected)
        if any(outcome.changed for outcome in tried):
            return say("The results are right, but your function changes the tensors that it was given, so the caller's "
                       "data is gone. Hint: write X = X + ..., not X += ...; masked_fill, not masked_fill_; or clone first.",
                       "结果是对的，但你的函数改动了传进来的张量，调用者的数据就丢了。提示：写 X = X + ...，不要写 X += ...；"
                       "用 masked_fill，不用 masked_fill_；或者先 clone 一份。")
        return say(f"Right: all {len(tried)} cases agree.", f"正确：{len(tried)} 种情形全部一致。")

    def _named(self, tried, first_wrong):
        """The mistake that agrees in every case; else, one that agrees up to and in the first wrong case."""
        arguments = list(self.cases.values())
        for cases in (range(len(arguments)), range(first_wrong + 1)):
            for mistake in self.mistakes.values():
                if all(_same(tried[i], _try(mistake.function, arguments[i])) for i in cases):
                    return say("Not yet. " + mistake.en, "还不对。" + mistake.zh)
        return None

    def _first_difference(self, i, tried, expected):
        case, got, want = list(self.cases)[i], tried[i], expected[i]
        case = case if isinstance(case, str) else say(*case)
        if got.error is not None:
            return say(f"Not yet. In the case {case} your function stops with {got.error}",
                       f"还不对。在“{case}”这种情形下，你的函数报错：{got.error}")
        if not isinstance(got.result, type(want.result)):
            return say(f"Not yet. In the case {case} your function returns a {type(got.result).__name__}; it should be a "
                       f"{type(want.result).__name__}.",
                       f"还不对。在“{case}”这种情形下，你的函数返回了 {type(got.result).__name__}，"
                       f"应当返回 {type(want.result).__name__}。")
        if isinstance(want.result, torch.Tensor) and got.result.shape != want.result.shape:
            return say(f"Not yet. In the case {case} the shape is {tuple(got.result.shape)}; it should be "
                       f"{tuple(want.result.shape)}.",
                       f"还不对。在“{case}”这种情形下，形状是 {tuple(got.result.shape)}，"
                       f"应当是 {tuple(want.result.shape)}。")
        if isinstance(want.result, torch.Tensor) and got.result.dtype != want.result.dtype:
            return say(f"Not yet. In the case {case} the type is {got.result.dtype}; it should be {want.result.dtype}.",
                       f"还不对。在“{case}”这种情形下，类型是 {got.result.dtype}，应当是 {want.result.dtype}。")
        return say(f"Not yet. In the case {case} your function returns\n{got.result}\nand it should be\n{want.result}",
                   f"还不对。在“{case}”这种情形下，你的函数返回\n{got.result}\n应当是\n{want.result}")


def numbers(*shape, seed=0):
    """Fixed numbers that look random, for cases."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class _Outcome(NamedTuple):
    result: object
    error: str
    changed: bool


def _try(function, arguments):
    """Call the function on copies, so that no case depends on what another did to its arguments."""
    given = copy.deepcopy(arguments)
    try:
        result, error = function(*given), None
    except Exception as problem:  # whatever the learner's code raises is an answer, and belongs to the learner
        result, error = None, f"{type(problem).__name__}: {problem}"
    changed = any(isinstance(before, torch.Tensor) and not torch.equal(before, after)
                  for before, after in zip(arguments, given))
    return _Outcome(result, error, changed)


def _same(one, other):
    if one.error is not None or other.error is not None:
        return one.error == other.error
    return _equal(one.result, other.result)


def _equal(a, b):
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (a.shape == b.shape and a.dtype == b.dtype
                and torch.allclose(a.detach().cpu().double(), b.detach().cpu().double(), atol=1e-3, equal_nan=True))
    return type(a) is type(b) and bool(a == b)
