"""Named methods: each a short file that fills the five slots."""

from .registry import build_method, calls_formula, describe_method, method_class, method_names, register

__all__ = ["build_method", "calls_formula", "describe_method", "method_class", "method_names", "register"]
