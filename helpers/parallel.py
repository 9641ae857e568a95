"""Heads on several devices: PyTorch's tensor parallelism for the course's modules, and a way to call a function in several processes.

Not imported by `import helpers`, since torch.distributed takes a second: helpers.split_heads and the others load it.
"""
import contextlib
import dis
import inspect
import io
import math
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import types
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.guards import check_number, check_sizes, guard, what

COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d")    # PyTorch's names of them


def split_heads(attention, mesh):
    """Leave each device of the mesh its share of the heads.

    It keeps its rows of the matrices of W_q, W_k and W_v and its columns of that of W_o, as
    nn.Linear stores them, (outputs, inputs). From its heads it makes an output of full width;
    the devices' outputs are summed. Returns the module. Raises ValueError where the devices
    cannot share the heads evenly. Shoeybi et al. 2019, section 3.
    """
    check_split(attention, mesh)
    attention.num_heads //= mesh.size()
    return parallelize_module(attention, mesh, {
        "W_q": ColwiseParallel(), "W_k": ColwiseParallel(), "W_v": ColwiseParallel(),
        "W_o": RowwiseParallel()})


def split_block(block, mesh):
    """Split a TransformerBlock: its heads, and the inner numbers of its feed-forward network."""
    split_heads(block.attention, mesh)
    parallelize_module(block.ffn, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return block


class Traffic(TorchDispatchMode):
    """What the devices exchange inside `with Traffic() as traffic:`.

    traffic.sent lists (collective, bytes): its name and the size of what this process hands over.
    """
    def __init__(self):
        super().__init__()
        self.sent = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(issubclass(one, DTensor) for one in types):
            return NotImplemented                       # becomes operations on parts first, and those are seen
        name = function.__name__.partition(".")[0]
        if function.namespace in COLLECTIVES and not name.startswith(("wait", "_wrap")):
            tensors = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
            self.sent.append((name, sum(tensor.nbytes for tensor in tensors)))
        return function(*args, **kwargs or {})


# ------------------------------------------------------------------ one function in several processes
def on_devices(function, devices, *inputs, timeout=120):
    """Call function(mesh, *inputs) in as many processes as there are devices, at the same time; return a list of what each returned.

    torchrun starts the processes, as it would start one for each GPU of a machine; here each computes on the CPU, and they
    talk through gloo. function: one of a notebook's cells will do; its source is sent, with the notebook's functions that it
    calls, but no other variables than numbers and strings: tensors are inputs. inputs and results: tensors, numbers, strings, and
    lists, tuples and dicts of them; of a DTensor, its part. What the processes print is printed, in their order. Raises RuntimeError
    with the error of the process that failed first, or where they have not finished after timeout seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "program.py").write_text(program(function), encoding="utf-8")
        torch.save(_plain(inputs), folder / "inputs.pt")
        # No host name has to be found, and no port is fixed: several such runs do not meet.
        output = _run([sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={devices}",
                       "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", str(folder / "program.py"),
                       str(folder)], timeout)
        return _results(folder, devices, output)


def take_part(function):
    """What each process does: call the function, and leave in the folder what it returned, printed, or raised."""
    folder, rank = Path(sys.argv[1]), os.environ["RANK"]
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            result = function(mesh, *torch.load(folder / "inputs.pt"))
        torch.save((_plain(result), printed.getvalue()), folder / f"result{rank}.pt")
        dist.barrier()                                                   # none leaves while another may still want something of it
    except Exception as error:
        said = "".join(traceback.format_exception_only(type(error), error))
        lines = [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.filename == sys.argv[0]]
        at = f"at {lines[-1]!r}" if lines else "at its start"
        (folder / f"error{time.time_ns()}.txt").write_text(f"process {rank}, {at}:\n{said}", encoding="utf-8")
        _leave(1)
    _leave(0)


def _leave(code):
    """End this process at once: destroy_process_group, and Python's own end, can hang where gloo's threads wait for the interpreter."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def program(function):
    """The program that each process runs: the function, those of its module that it calls, and what these use."""
    imports, sources, waiting = {}, {}, [function]
    while waiting:
        one = waiting.pop()
        try:
            sources[one.__name__] = textwrap.dedent(inspect.getsource(one))
        except (OSError, TypeError):
            raise ValueError(f"function must have a source that can be sent, as a function of a notebook's cell has; "
                             f"{one.__name__} has none") from None
        for name in sorted(set(_global_names(one.__code__))):
            value = one.__globals__.get(name)
            if isinstance(value, types.ModuleType):
                imports[name] = f"import {value.__name__} as {name}"
            elif isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
                waiting += [value] * (name not in sources)
            elif isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)) and value.__module__ not in (
                    None, function.__module__):
                imports[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
            elif isinstance(value, (int, str)) or isinstance(value, float) and math.isfinite(value):
                imports[name] = f"{name} = {value!r}"
            elif name in one.__globals__:
                raise ValueError(f"function uses {name}, a {type(value).__name__} that the other processes do not have; pass it "
                                 f"as an input, or make it inside {one.__name__}")
    return "\n".join([*sorted(imports.values()), "from helpers.parallel import take_part", "", *sources.values(), "",
                      f'if __name__ == "__main__":\n    take_part({function.__name__})\n'])


def _global_names(code):
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
        elif isinstance(instruction.argval, types.CodeType):              # a function inside, or a comprehension before Python 3.12
            yield from _global_names(instruction.argval)


def _plain(value):
    """Without what belongs to a process: gradients' history, and that a tensor is one part of several."""
    if isinstance(value, DTensor):
        value = value.to_local()
    if isinstance(value, torch.Tensor):
        return value.detach().clone().cpu()                              # also waits for a sum that is under way
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return value


def _environment():
    """The notebook's, with the course to be found, and with connections that stay on this machine."""
    paths = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {"USE_LIBUV": "0"} if sys.platform == "win32" else {}   # PyTorch's packages for Windows are built without it
    loopback = {"lo", "lo0"} & {name for _, name in socket.if_nameindex()}
    environment |= {"GLOO_SOCKET_IFNAME": name for name in loopback}     # else gloo asks for this machine's name, which may have no address
    return {**environment, **os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _run(command, timeout):
    """Run a command and return all that it wrote; however this ends, the command does not go on."""
    process = subprocess.Popen(command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                               errors="replace")
    try:
        return process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the processes had not finished after {timeout} seconds; perhaps one waits for what another "
                           "does not send. With timeout= they get more time") from None
    finally:
        if process.poll() is None:
            process.terminate()                                          # torchrun ends its processes first
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _results(folder, devices, output):
    errors = sorted(folder.glob("error*.txt"))                           # by time: one process's error is often the others' as well
    if errors:
        raise RuntimeError(f"stopped in {errors[0].read_text(encoding='utf-8').strip()}")
    files = [folder / f"result{rank}.pt" for rank in range(devices)]
    if not all(file.exists() for file in files):
        windows = (" (PyTorch's packages for Windows come without what torchrun needs: use WSL, Colab or another machine.)"
                   if sys.platform == "win32" else "")
        raise RuntimeError(f"the processes did not start or did not finish.{windows} They wrote:\n{output[-2000:]}")
    results = [torch.load(file) for file in files]
    for rank, (_, printed) in enumerate(results):
        for line in printed.splitlines():
            print(f"process {rank}: {line}")
    return [result for result, _ in results]


# ------------------------------------------------------------------ wrong input, refused by name
def check_split(attention, mesh):
    """Refuse what is no multi-head attention, or has heads that the devices of the mesh cannot share evenly."""
    if not all(isinstance(getattr(attention, name, None), nn.Linear) for name in ("W_q", "W_k", "W_v", "W_o")):
        raise ValueError(f"attention must be a MultiHeadAttention, with W_q, W_k, W_v and W_o; got {what(attention)}")
    _check_mesh(mesh)
    if isinstance(attention.W_q.weight, DTensor):
        raise ValueError("attention has been split already; split a module once")
    if attention.num_heads % mesh.size():
        raise ValueError(f"num_heads must be a multiple of the number of devices, so that no head is cut: {attention.num_heads} "
                         f"heads, {mesh.size()} devices")


def _check_split_block(block, mesh):
    if not all(hasattr(block, name) for name in ("attention", "ffn")):
        raise ValueError(f"block must be a TransformerBlock, with attention and ffn; got {what(block)}")
    check_split(block.attention, mesh)
    width = block.ffn[0].out_features
    if width % mesh.size():
        raise ValueError(f"ffn_num_hiddens must be a multiple of the number of devices: {width}, {mesh.size()} devices")


def _check_mesh(mesh):
    if not isinstance(mesh, DeviceMesh) or mesh.ndim != 1:
        axes = f" with {mesh.ndim} axes" if isinstance(mesh, DeviceMesh) else ""
        raise ValueError(f"mesh must be a DeviceMesh with one axis, such as init_device_mesh(\"cpu\", (2,)); got {what(mesh)}{axes}")


def _check_on_devices(function, devices, inputs, timeout):
    if not isinstance(function, types.FunctionType) or function.__name__ == "<lambda>":
        raise ValueError(f"function must be a function with a name, made by def; got {what(function)}")
    check_sizes(devices=devices)
    check_number(1, 3600, timeout=timeout)


split_block = guard(split_block, _check_split_block)
on_devices = guard(on_devices, _check_on_devices)
