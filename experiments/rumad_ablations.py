"""Ablations of the controller of debates: trains each with two seeds, then compares them on test questions of Relay.

    python experiments/rumad_ablations.py --quick           # fewer updates and questions
    python experiments/rumad_ablations.py --seeds 0 1 2

Each name in VARIANTS is a preset of rumad.yaml. All are trained on agents that make no mistakes, from scratch and
equally long, then used as they are on the trained agents. Everything can be killed: what is finished is not repeated,
what was begun goes on. The folder gets one training for each name and seed, `ablations.yaml`, and `compare/`, what
`goa bench` makes of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import yaml

from goa_torch.bench import run_experiment
from goa_torch.rl import train_controller

HERE = Path(__file__).parent
VARIANTS = ("ablation", "no_activation", "no_budget", "no_round_reward", "no_final_reward", "beta")


def main(arguments: Sequence[str] | None = None) -> Path:
    """Trains and compares; returns the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=Path, default=HERE / "rumad.yaml")
    parser.add_argument("--out", type=Path, default=Path("runs") / "rumad_ablations")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of trainings")
    parser.add_argument("--limit", type=int, default=None, help="test questions (400; 200 with --quick)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="override keys of the training file")
    asked = parser.parse_args(arguments)
    controllers: dict[str, Path] = {}
    for variant in asked.variants:
        for seed in asked.seeds:
            name, folder = f"{variant}, {seed}", asked.out / f"{variant}-{seed}"
            controllers[name] = folder / "best"
            if (folder / "summary.json").is_file():
                continue
            print(f"\n{name}", flush=True)
            preset = "+".join(["ablation", *([variant] if variant != "ablation" else [])])
            shorter = ["schedule.updates=50"] if asked.quick else []
            overrides = [f"preset={preset}", f"schedule.seed={seed}", *shorter, *asked.set]
            train_controller(asked.training, overrides, folder)
    path = asked.out / "ablations.yaml"
    path.write_text(yaml.safe_dump(comparison(controllers, asked.limit or (200 if asked.quick else 400))),
                    encoding="utf-8")
    run_experiment(path, out=asked.out / "compare")
    return asked.out


def comparison(controllers: dict[str, Path], limit: int) -> dict:
    """The experiment that compares controllers on test questions."""
    methods = [{"name": "rumad", "checkpoint": str(folder.resolve()), "label": name}
               for name, folder in controllers.items()]
    return {"pool": "relay", "baseline": methods[0]["label"], "batch_questions": 200, "methods": methods,
            "tasks": [{"name": "relay", "limit": limit, "settings": {"depth": [1, 2, 3, 4]}}]}


if __name__ == "__main__":
    main()
