"""Before anything imports torch, here and in the kernels that nbval starts: one thread for each process.

Two processes with two threads each crawl on two cores.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
