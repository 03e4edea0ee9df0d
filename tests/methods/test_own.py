"""A method of one's own is a short file that touches nothing else; the README's is built and run here."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from goa_torch.bench.config import load_experiment
from goa_torch.bench.plan import make_plan
from goa_torch.errors import UserError
from goa_torch.methods import build_method, method_names
from tests.worlds import echo_pool, questions

README = Path(__file__).parents[2] / "README.md"
NAME = "mavericks:Mavericks"


@pytest.fixture
def readme_method(tmp_path, monkeypatch):
    """The README's file, on the path."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    [source] = [block for block in blocks if "class Mavericks" in block]
    (tmp_path / "mavericks.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mavericks", raising=False)
    yield source
    sys.modules.pop("mavericks", None)


def test_the_readmes_method_is_short_and_runs(readme_method):
    assert len(readme_method.splitlines()) < 60
    drawn = iter(["x", "x", "x", "x", "x", "y"] + ["y"] * 12)
    pool = echo_pool(lambda chat: next(drawn))
    [result] = build_method(NAME, pool, k=1)(questions(1))
    first = next(stage for stage in result.trace["stages"] if stage["stage"] == "pass")
    lonely = 5  # who says y
    assert sorted(edge[:2] for edge in first["edges"]) == sorted([[lonely, v] for v in range(5)] + [[0, lonely]])
    assert result.usage.calls == 18 and result.answer == "y"
    assert NAME not in method_names()


def test_the_readmes_method_can_be_named_in_an_experiment(readme_method, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("pool: echo\ntasks: [{name: relay, limit: 2}]\n"
                    f"methods: [single, {{name: '{NAME}', k: [1, 2]}}]\n")
    plan = make_plan(load_experiment(path, out=tmp_path / "run"))
    assert [cell.label for cell in plan.cells] == ["single", f"{NAME}(k=1)", f"{NAME}(k=2)"]
    assert [plan.build(cell).connect.k for cell in plan.cells[1:]] == [1, 2]


@pytest.mark.parametrize("name, words", [
    ("nowhere:Method", "No module named 'nowhere'; is the folder of its file on PYTHONPATH"),
    ("goa_torch.types:Nothing", "has no attribute 'Nothing'"), ("goa_torch.types:Question", "is no method"),
    ("mavericks", "unknown method 'mavericks'"),
])
def test_what_is_no_method_is_one_line(name, words):
    with pytest.raises(UserError, match=words):
        build_method(name, echo_pool())
