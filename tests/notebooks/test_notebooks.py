"""Every notebook runs from top to bottom, and is kept without outputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goa_torch import load_pool
from goa_torch.errors import UserError

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (pip install 'goa_torch[test]')")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel", reason="ipykernel is not installed (pip install 'goa_torch[test]')")

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks():
    assert {"first_graph", "graph_theory_of_a_debate"} <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


@pytest.mark.timeout(900)  # ten seconds of work each, but not on a busy machine
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    if any('load_pool("relay' in cell.source for cell in notebook.cells):
        try:
            load_pool("relay").check()
        except UserError as error:
            pytest.skip(f"no trained agents of Relay here: {error}")
    # kernels find the package of this clone, and draw without a screen
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any(output.output_type in ("stream", "execute_result") for output in outputs)
