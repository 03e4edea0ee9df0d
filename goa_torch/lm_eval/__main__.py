"""The harness's command line with the model ``goa``: python -m goa_torch.lm_eval --model_args pool=... --tasks ..."""

from __future__ import annotations

import sys

from ..errors import UserError


def main(words: list[str]) -> int:
    """Runs the harness with ``words``; ``--model goa`` may be left out."""
    from lm_eval.__main__ import cli_evaluate

    from . import GraphLM  # registers it

    asks_for_model = any(word.partition("=")[0] in ("--model", "-m") for word in words)
    runs = bool(words) and (words[0] == "run" or words[0].startswith("-")) and not {"-h", "--help"} & set(words)
    sys.argv = ["goa_torch.lm_eval", *words, *(["--model", "goa"] if runs and not asks_for_model else [])]
    assert GraphLM is not None
    cli_evaluate()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"goa: error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
