"""Examines a pool of Relay agents and prints its competence table.

    python experiments/relay_competence.py POOL --out competence.json
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", help="name of a shipped pool, or a YAML file")
    parser.add_argument("--questions", type=int, default=150, help="questions of each depth")
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0, help="which questions")
    parser.add_argument("--temperature", type=float, help="instead of the pool's; 0 is greedy")
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()

    from goa_torch.agents.pools import load_pool
    from goa_torch.errors import UserError
    from goa_torch.training.relay.competence import as_markdown, examine_pool

    try:
        found = examine_pool(load_pool(arguments.pool), arguments.questions, arguments.depths, arguments.seed,
                             arguments.split, arguments.temperature)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(as_markdown(found), end="")
    if arguments.out:
        arguments.out.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
