"""Where the course computes."""
import torch


def try_gpu(i=0):
    """The i-th CUDA GPU where there is one, else the CPU."""
    if i < 0:
        raise ValueError(f"i counts GPUs from 0, got {i}")
    if torch.cuda.device_count() > i:
        return torch.device(f"cuda:{i}")
    return torch.device("cpu")
