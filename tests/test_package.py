"""What is installed is complete, light to import, and the same as what the repository shows."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

import goa_torch
from goa_torch.paths import models_folder

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "transformers", "torch_geometric", "datasets", "openai", "matplotlib")


def run(*words: str, cwd: Path = ROOT, path: Path = ROOT, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PYTHONPATH": str(path)}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=environment, input=stdin, capture_output=True,
                          text=True, timeout=120)


def loaded_after(code: str) -> set[str]:
    done = run("-c", f"{code}\nimport sys\nprint()\nprint(*(n for n in {HEAVY!r} if n in sys.modules))")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_after("import goa_torch; goa_torch.Question; goa_torch.load_pool; goa_torch.UserError") == set()


@pytest.mark.parametrize("words", [["--help"], ["pools"], ["pools", "smollm2"], ["methods"], ["tasks"], ["--version"],
                                   ["ask", "--help"], ["bench", "--help"]])
def test_commands_that_only_tell_load_nothing_heavy(words):
    code = ("from goa_torch.cli import main\ntry:\n    status = main(" + repr(words) + ")\n"
            "except SystemExit as stop:\n    status = stop.code\nassert not status, status")
    assert loaded_after(code) == set()


def test_every_name_the_package_offers_exists():
    for name in goa_torch.__all__:
        assert getattr(goa_torch, name) is not None
    assert set(goa_torch.__all__) <= set(dir(goa_torch))
    with pytest.raises(AttributeError, match="load_pols"):
        goa_torch.load_pols  # noqa: B018


def test_the_models_folder_is_the_one_of_the_clone():
    assert models_folder() == ROOT / "models"


def test_the_list_of_packages_is_the_folders_that_hold_python_files():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = set(config["options"]["packages"].split())
    there = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "goa_torch").rglob("*.py")}
    assert listed == there | {"goa_torch.models"}


def test_a_wheel_works_from_an_empty_folder(tmp_path):
    pytest.importorskip("build", reason="the build package makes the wheel")
    source = tmp_path / "source"
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if files.returncode != 0:
        pytest.skip("git lists the files that belong to the repository; this is no clone")
    for name in files.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "notebooks/")):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    built = run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(source))
    assert built.returncode == 0, built.stdout + built.stderr
    wheel = next((tmp_path / "dist").glob("*.whl"))
    site, empty = tmp_path / "site", tmp_path / "empty"
    installed = run("-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", str(site), str(wheel))
    assert installed.returncode == 0, installed.stderr
    empty.mkdir()
    shown = run("-m", "goa_torch", "pools", cwd=empty, path=site)
    assert shown.returncode == 0, shown.stderr
    assert {"echo", "paper", "smollm2"} <= set(shown.stdout.split())
    asked = run("-m", "goa_torch", "ask", "What is two and two?", "--pool", "echo", cwd=empty, path=site)
    assert asked.returncode == 0, asked.stderr
    assert (site / "bin" / "goa").is_file()
    assert list(empty.iterdir()) == []
    shipped = {path.relative_to(source / "models") for path in (source / "models").rglob("*") if path.is_file()}
    inside = site / "goa_torch" / "models"
    assert shipped == {path.relative_to(inside) for path in inside.rglob("*") if path.is_file()}


def test_ci_runs_the_readmes_test_command():
    command = 'pip install -e ".[test]" && pytest'
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
