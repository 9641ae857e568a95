"""Heads on several devices: two processes compute what one does, and say to each other what lesson 07 counts."""
import contextlib
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from helpers import MultiHeadAttention, Traffic, TransformerBlock, on_devices, parallel, split_block, split_heads

BATCH, QUERIES, KEYS, WIDTH = 3, 4, 6, 12


def make_attention(state=None, num_heads=4):
    attention = MultiHeadAttention(WIDTH, WIDTH, WIDTH, WIDTH, num_heads, 0.0, bias=True)
    if state is not None:
        attention.load_state_dict(state)
    return attention


def both_ways(module, *inputs):
    """Output, gradients, and what was said forward and backward."""
    inputs = [X.clone().requires_grad_() if X.is_floating_point() else X for X in inputs]
    with Traffic() as forward:
        Y = module(*inputs)
    with Traffic() as backward:
        Y.square().sum().backward()
    return {"output": Y, "inputs": [X.grad for X in inputs if X.is_floating_point()], "forward": forward.sent,
            "backward": backward.sent, "gradients": {name: parameter.grad.clone() for name, parameter in module.named_parameters()}}


def in_two_processes(mesh, state, block_state, queries, keys, lens):
    print("here")
    attention = split_heads(make_attention(state), mesh)
    found = {"attention": both_ways(attention, queries, keys, keys.clone(), lens), "weights": attention.attention_weights,
             "kept": dict(attention.named_parameters())}
    with CommDebugMode() as counted, torch.no_grad():
        attention(queries, keys, keys)
    found["PyTorch counts"] = counted.get_total_counts()

    X = DTensor.from_local(queries.clone().requires_grad_(), mesh, [Replicate()])
    Y = attention(X, X, X)
    with Traffic() as once:
        Y.sum().backward()
    found["entered once"] = once.sent

    with Traffic() as forward:
        split_heads(make_attention(num_heads=2), mesh)(queries, keys, keys)
    found["two heads"] = forward.sent[-1:]

    block = TransformerBlock(WIDTH, 4, 32, 0.0)
    block.load_state_dict(block_state)
    found["block"] = both_ways(split_block(block, mesh), queries)

    uneven = make_attention(state, num_heads=3)
    try:
        split_heads(uneven, mesh)
    except ValueError as error:
        found["refused"] = str(error)
    parallelize_module(uneven, mesh, {name: ColwiseParallel() for name in ("W_q", "W_k", "W_v")})
    found["rows without a word"] = uneven.W_q.weight.to_local().shape[0]
    try:
        split_heads(attention, mesh)
    except ValueError as error:
        found["twice"] = str(error)
    return found


@pytest.fixture(scope="module")
def both():
    """What one process finds, and a list of what each of two finds."""
    if sys.platform == "win32":
        pytest.skip("PyTorch's packages for Windows lack what torchrun needs")
    torch.manual_seed(3)
    attention, block = make_attention(), TransformerBlock(WIDTH, 4, 32, 0.0)
    queries, keys, lens = torch.randn(BATCH, QUERIES, WIDTH), torch.randn(BATCH, KEYS, WIDTH), torch.tensor([6, 0, 2])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        two = on_devices(in_two_processes, 2, attention.state_dict(), block.state_dict(), queries, keys, lens)
    one = {"attention": both_ways(attention, queries, keys, keys.clone(), lens), "weights": attention.attention_weights,
           "block": both_ways(block, queries), "printed": printed.getvalue(), "attention module": attention}
    return one, two


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_two_processes_find_what_one_does(both):
    one, two = both
    for mine in two:
        for module in ("attention", "block"):
            close(mine[module]["output"], one[module]["output"])
            close(mine[module]["inputs"], one[module]["inputs"])


@pytest.mark.slow
def test_each_process_has_its_heads_and_its_parameters_and_their_gradients(both):
    one, (first, second) = both
    close(torch.cat([first["weights"], second["weights"]], dim=1), one["weights"])
    parameters = dict(one["attention module"].named_parameters())
    for name, parameter in parameters.items():
        for whole, parts in ((parameter, [mine["kept"][name] for mine in (first, second)]),
                             (one["attention"]["gradients"][name], [mine["attention"]["gradients"][name] for mine in (first, second)])):
            if name == "W_o.bias":                                       # every process has it; it counts once
                close(parts[0], whole.detach())
                close(parts[1], whole.detach())
            else:
                close(torch.cat(parts, dim=1 if name == "W_o.weight" else 0), whole.detach())


@pytest.mark.slow
def test_traffic_is_one_sum_of_the_output_whatever_the_heads(both):
    size = 4 * BATCH * QUERIES * WIDTH
    for mine in both[1]:
        assert mine["attention"]["forward"] == mine["two heads"] == mine["entered once"] == [("all_reduce", size)]
        assert mine["PyTorch counts"] == 1
        assert sorted(mine["attention"]["backward"]) == [("all_reduce", size)] + 2 * [("all_reduce", 4 * BATCH * KEYS * WIDTH)]
        assert mine["block"]["forward"] == 2 * [("all_reduce", size)]
        assert mine["block"]["backward"] == 4 * [("all_reduce", size)]


@pytest.mark.slow
def test_no_head_is_cut_and_no_module_twice(both):
    for mine in both[1]:
        assert "3 heads, 2 devices" in mine["refused"] and mine["rows without a word"] == 6      # of heads of width 4
        assert "already" in mine["twice"]


@pytest.mark.slow
def test_what_the_processes_print_comes_back_in_their_order(both):
    assert both[0]["printed"] == "process 0: here\nprocess 1: here\n"


# ------------------------------------------------------------------ without other processes
def calls_another(mesh, X):
    return [another(part) for part in X]


def another(X):
    return torch.relu(X) + Path("a").name.count("a") + time.time_ns() * 0 + BATCH - 3


def test_the_program_holds_what_the_function_needs():
    namespace = {"__name__": "program"}
    exec(parallel.program(calls_another), namespace)
    assert torch.equal(namespace["calls_another"](None, torch.tensor([[-1.0, 2.0]]))[0], torch.tensor([1.0, 3.0]))


def test_the_course_is_found_from_everywhere_and_the_learners_settings_stay(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    there = parallel._environment()
    assert there["GLOO_SOCKET_IFNAME"] == "eth7"
    root, rest = there["PYTHONPATH"].split(os.pathsep)
    assert (Path(root) / "helpers" / "parallel.py").exists() and rest == "elsewhere"


def test_a_command_that_does_not_end_is_ended(tmp_path):
    code = f"import os, pathlib, time; pathlib.Path({str(tmp_path / 'pid')!r}).write_bytes(b'%d' % os.getpid()); time.sleep(60)"
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="after 2 seconds"):
        parallel._run([sys.executable, "-c", code], timeout=2)
    assert time.monotonic() - start < 20
    if sys.platform != "win32":
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text(encoding="utf-8")), 0)


def fails(mesh):
    return {}["missing"]


def test_the_first_error_is_said_with_its_line(tmp_path, monkeypatch):
    torch.save((), tmp_path / "inputs.pt")
    monkeypatch.setattr(sys, "argv", [__file__, str(tmp_path)])
    for name in ("init_process_group", "get_world_size"):
        monkeypatch.setattr(parallel.dist, name, lambda *given: 2)
    monkeypatch.setattr(parallel, "init_device_mesh", lambda *given: None)
    monkeypatch.setattr(parallel, "_leave", sys.exit)
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(SystemExit, match="1"):
            parallel.take_part(fails)
    with pytest.raises(RuntimeError) as caught:
        parallel._results(tmp_path, 2, "")
    assert str(caught.value) == """stopped in process 1, at 'return {}["missing"]':\nKeyError: 'missing'"""


def test_where_nothing_came_back_the_output_is_said(tmp_path):
    with pytest.raises(RuntimeError, match="did not start or did not finish(.|\n)*no such option"):
        parallel._results(tmp_path, 2, "torchrun: no such option")


def test_no_other_lesson_waits_for_torch_distributed():
    code = "import sys, helpers; print('torch.distributed.tensor.parallel' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=parallel._environment(), capture_output=True, encoding="utf-8")
    assert done.stdout.strip() == "False", done.stderr
