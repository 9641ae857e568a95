"""Where the course computes."""
import os

import torch

from helpers.guards import check_sizes

VARIABLE = "COURSE_DEVICE"


def try_gpu(i=0):
    """The i-th CUDA GPU where there is one, else the CPU.

    The environment variable COURSE_DEVICE decides instead, unless it is empty: cpu, cuda (the first GPU), cuda:1, or mps
    on a Mac. Raises ValueError for what is no device of this machine.
    """
    check_sizes(least=0, i=i)
    name = os.environ.get(VARIABLE, "").strip().lower()
    if name:
        return _named(name)
    if torch.cuda.device_count() > i:
        return torch.device(f"cuda:{i}")
    return torch.device("cpu")


def _named(name):
    here = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count())), *["mps"] * torch.backends.mps.is_available()]
    device = "cuda:0" if name == "cuda" else name
    if device not in here:
        raise ValueError(f"{VARIABLE} must be empty or a device that PyTorch finds on this machine: {', '.join(here)}; got {name!r}")
    return torch.device(device)
