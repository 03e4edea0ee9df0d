"""Generated code, run where it can do no harm and learn nothing: see :mod:`goa_torch.sandbox.run`."""

from __future__ import annotations

from .run import Limits, Verdict, need_sandbox, run_tests

__all__ = ["Limits", "Verdict", "need_sandbox", "run_tests"]
