"""Nothing on the site is stale: Sphinx looks at the pages' sources alone, this at all else that they are made of."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

# What cells run, read and draw with.
KERNELS = ("lib/**/*", "experiments/**/*", "tools/record.py", "requirements.txt", "pyproject.toml")
READERS = ("book/extensions/*.py", "book/references.bib")
FRAME = ("book/assets/**/*", "book/templates/*", "book/locale/**/*.po", "book/extensions/*.js")


LEFT_BEHIND = ("__pycache__", ".ipynb_checkpoints")  # what Python and Jupyter leave beside the files


def fingerprint(root: Path, patterns: Iterable[str]) -> str:
    """A digest of the files that match, by path and content."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in root.glob(pattern) if path.is_file()}):
        name = path.relative_to(root)
        if not set(LEFT_BEHIND) & set(name.parts):
            digest.update(f"{name.as_posix()} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def take_fingerprints(app: Sphinx, config: Config) -> None:
    """Set the values whose change makes Sphinx read or write every page again."""
    root = Path(app.srcdir)
    config.kernels = fingerprint(root, KERNELS)
    config.readers = fingerprint(root, READERS)
    config.frame = fingerprint(root, FRAME)


def keep_cache_apart(app: Sphinx, config: Config) -> None:
    """The cache knows a notebook by its cells alone: each state of the kernels has a folder, and the last one stays."""
    cache = Path(app.outdir).parent / ".jupyter_cache"
    for older in set(cache.glob("*/")) - {cache / config.kernels}:
        shutil.rmtree(older)
    config.nb_execution_cache_path = str(cache / config.kernels)
    os.environ["PYTHONSTARTUP"] = str(Path(app.srcdir) / "tools/record.py")  # its kernels inherit both
    os.environ["RECORD"] = str(cache / config.kernels / "explorers")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("kernels", "", "env", [str])  # "env": every page is read again
    app.add_config_value("readers", "", "env", [str])
    app.add_config_value("frame", "", "html", [str])  # "html": every page is written again, with the static files
    app.connect("config-inited", take_fingerprints)
    app.connect("config-inited", keep_cache_apart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
