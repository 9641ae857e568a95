"""Train each positional encoding on each task of helpers.order at one length and test it at others, twenty seeds each.

python benchmarks/length_generalisation.py

Takes about six minutes on one core and writes helpers/length_generalisation.json, which lesson 05 shows. Accuracies
are rounded to 2 digits. Another machine or version of torch gives other digits, above all beyond the trained length;
what the lesson says about them is tested in tests/test_positions.py on seeds of its own.
"""
import json
import re
from pathlib import Path

import torch

from helpers import OrderModel, train
from helpers.order import ENCODINGS, TASKS, accuracy_at, batches, order_loss

TRAINED_AT = 32
LENGTHS = [16, 24, 32, 48, 64, 96, 128, 256]
SEEDS = range(20)


def measure(task, encoding, seed):
    """Accuracy at each of LENGTHS of one model trained at TRAINED_AT."""
    torch.manual_seed(seed)
    model = OrderModel(encoding)
    train(model, order_loss, batches(TASKS[task], 32, TRAINED_AT), steps=400, lr=1e-2)
    return [round(share, 2) for share in accuracy_at(model, TASKS[task], LENGTHS)]


def main():
    results = {"trained_at": TRAINED_AT, "lengths": LENGTHS, "accuracy": {}}
    for task in TASKS:
        results["accuracy"][task] = {}
        for encoding in ENCODINGS:
            runs = [measure(task, encoding, seed) for seed in SEEDS]
            results["accuracy"][task][encoding] = runs
            print(f"{task}, {encoding}: " + "  ".join(
                f"n={n} {min(shares):.2f}-{max(shares):.2f}" for n, shares in zip(LENGTHS, zip(*runs))), flush=True)
    path = Path(__file__).resolve().parent.parent / "helpers" / "length_generalisation.json"
    text = re.sub(r"\[([^\[\]]*)\]", lambda inner: f"[{' '.join(inner[1].split())}]", json.dumps(results, indent=1))
    path.write_text(text + "\n", encoding="utf-8")                        # a line for each seed


if __name__ == "__main__":
    main()
