"""EleutherAI's lm-evaluation-harness with a whole graph of agents as its model.

Importing this package registers the model ``goa`` in the harness (which has no plug-in entry points)::

    import lm_eval, goa_torch.lm_eval

    lm_eval.simple_evaluate("goa", model_args="pool=smollm2,method=goa,k=3,answers=number", tasks=["gsm8k"], limit=8)

or, in the shell: ``python -m goa_torch.lm_eval --model_args pool=smollm2,method=vote,answers=number --tasks gsm8k``.
"""

from __future__ import annotations

from ..errors import UserError

try:
    from .graph_lm import GraphLM
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "lm_eval":
        raise
    raise UserError("the evaluation harness is not installed; pip install 'goa_torch[eval]'") from error
from .tasks import write_task

__all__ = ["GraphLM", "write_task"]
