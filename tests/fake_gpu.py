"""A GPU without a GPU, for tests: tensors know that they are on it, and refuse to be mixed with others, but hold no numbers."""
import contextlib

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

# PyTorch 2.6 wants a driver even for these, and a CPU build makes no modules of them.
IMPOSSIBLE = ("driver", "not compiled with CUDA", "not linked with support for cuda")


@contextlib.contextmanager
def fake_cuda():
    """Inside, device="cuda" gives fake tensors; the test is skipped where this PyTorch makes none."""
    try:
        with FakeTensorMode(), torch.backends.cudnn.flags(enabled=False):    # cuDNN asks the driver, too
            with torch.device("cuda"):
                torch.nn.Linear(2, 2)(torch.empty(2).square() + torch.arange(2))
            yield
    except (AssertionError, RuntimeError) as error:
        if any(reason in str(error) for reason in IMPOSSIBLE):
            pytest.skip(f"this torch makes no fake CUDA tensors here: {error}")
        raise
