"""Where what is shipped lies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from .errors import UserError


def models_folder() -> Path:
    """The folder of pools, prompts, cards and weights that come with goa_torch.

    It is ``models/`` inside the installed package, or beside it in a clone of the repository (used with
    ``pip install -e .`` or straight from the folder).

    Raises:
        UserError: if the installation lacks it.
    """
    package = Path(str(resources.files(__package__)))
    for folder in (package / "models", package.parent / "models"):
        if (folder / "prompts").is_dir():
            return folder
    raise UserError(f"goa_torch in {package} has no models folder; install the package again")


def digest_of(files: Iterable[Path]) -> str:
    """A short name for the contents of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
