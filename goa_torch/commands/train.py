"""Train a topology or a controller of one, as a file says.

Keys of the file can be overridden: goa train experiments/rumad.yaml preset=published schedule.seed=1
The training can be killed at any moment; the same command resumes it.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from ..config import Place, read_yaml
from ..errors import UserError, unknown

#: What a file's ``kind`` names: ``module:function``, called as ``function(path, overrides, out)``.
TRAINERS = {
    "ppo": "goa_torch.rl.training:train_controller",
    "topology": "goa_torch.training.topology.training:train_topology",
}
#: What the extra ``rl`` brings.
EXTRA = ("gymnasium", "tensordict", "torchrl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("training", type=Path, metavar="TRAINING.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="override keys of the file")
    parser.add_argument("--out", metavar="DIR", help="the run folder")


def run(args: argparse.Namespace) -> int:
    for word in args.overrides:
        if "=" not in word:
            raise UserError(f"{word!r} is not an override; write key=value")
    kind = read_yaml(args.training).get("kind")
    if not isinstance(kind, str) or kind not in TRAINERS:
        raise unknown("kind", kind, TRAINERS, str(Place(args.training, ("kind",))))
    module, _, function = TRAINERS[kind].partition(":")
    try:
        train = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise UserError(f"training of kind {kind!r} needs the package {error.name}; "
                        "run: pip install 'goa_torch[rl]'") from None
    train(args.training, args.overrides, args.out)
    return 0
