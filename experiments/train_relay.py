"""Trains the agents of Relay (see models/relay): one command, all agents of all pool seeds.

    python experiments/train_relay.py --out runs/relay                    everything in train_relay.yaml
    python experiments/train_relay.py --out runs/relay --seeds 0 --only math code
    accelerate launch experiments/train_relay.py --out runs/relay --device cuda

Stop it at any moment, with SIGKILL too; the same command goes on from the last checkpoint. ``work/seed*/*/log.jsonl``
holds losses and validation as they come.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", nargs="?", type=Path, default=Path(__file__).with_suffix(".yaml"), help="training file")
    parser.add_argument("--out", type=Path, required=True, help="where agents, checkpoints and logs go")
    parser.add_argument("--seeds", type=int, nargs="+", help="pool seeds (default: the plan's)")
    parser.add_argument("--only", nargs="+", help="these agents (default: all)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=int, help="CPU threads (default: as many as there are cores)")
    arguments = parser.parse_args()

    import torch

    from goa_torch.errors import UserError, unknown
    from goa_torch.training.relay.plan import read_plan
    from goa_torch.training.relay.school import School

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    try:
        plan = read_plan(arguments.plan)
        plan.seeds = arguments.seeds or plan.seeds
        for name in arguments.only or ():
            if name not in plan.agents:
                raise unknown("agent", name, plan.agents, str(arguments.plan))
        provenance = {"config": arguments.plan.name, "commit": commit()}
        school = School(plan, arguments.out, arguments.device, lambda line: print(line, flush=True), provenance)
        for folder in school.run(arguments.only):
            print(folder)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def commit() -> str:
    """The commit of this code, ``+`` added if tracked files differ from it; ``unknown`` outside a repository."""
    try:
        run = [subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
               for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return run[0].stdout.strip() + ("+" if run[1].stdout.strip() else "")


if __name__ == "__main__":
    raise SystemExit(main())
