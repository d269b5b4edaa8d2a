"""Chapters run anew when the kernels they import change, though their own cells haven't."""

import hashlib
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

SOURCES = ("lib/**/*.py", "lib/**/*.js", "lib/**/*.css", "requirements.txt")


def fingerprint(root: Path) -> str:
    """A digest of everything that a chapter's results depend on beside its own cells."""
    files = sorted(path for pattern in SOURCES for path in root.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def keep_cache_apart(app: Sphinx, config: Config) -> None:
    """The cache knows a notebook by its cells alone: each state of the kernels has a folder, and the last one stays."""
    config.kernels = fingerprint(Path(app.srcdir))
    cache = Path(app.outdir).parent / ".jupyter_cache"
    for older in set(cache.glob("*/")) - {cache / config.kernels}:
        shutil.rmtree(older)
    config.nb_execution_cache_path = str(cache / config.kernels)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("kernels", "", "env", [str])  # "env": a new value has every page read again
    app.connect("config-inited", keep_cache_apart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
