"""The page: one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import UserError
from .collect import collect

_SCRIPTS = ("dom.js", "charts.js", "graph.js", "trace.js", "page.js")


def write_page(folders: Sequence[str | Path], path: str | Path, title: str | None = None,
               traces: int | None = None) -> Path:
    """Writes the page about run folders and returns its path.

    Args:
        folders: of ``goa bench`` or of trainings.
        path: of the page.
        title: by default the names of the runs.
        traces: questions of each task whose traces are in the page; all by default.

    Raises:
        UserError: if a folder holds no run, or the page cannot be written.
    """
    path = Path(path)
    text = page([collect(folder, traces) for folder in folders], title)
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{path}: the report cannot be written ({error.strerror}); name another file") from error
    return path


def page(runs: Sequence[dict[str, Any]], title: str | None = None) -> str:
    """The HTML of what :func:`~goa_torch.report.collect.collect` says about runs.

    Nothing of it is markup but what is in the package: data lie in the page as JSON in which ``<``, ``>`` and ``&``
    are escaped, and scripts write them as text. The page's own policy forbids any connection and any other script.
    """
    title = title or ", ".join(run["name"] for run in runs)
    assets = resources.files(__package__) / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    script = "\n".join((assets / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f"'use strict';\n{script}"
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    data = embedded({"title": title, "version": __version__, "runs": list(runs)})
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<noscript><p>This page needs JavaScript to show its tables and traces; it loads nothing from anywhere.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def embedded(value: Any) -> str:
    """JSON that can lie in a ``script`` element of any page."""
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _finite(value: Any) -> Any:
    """JSON has no word for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
