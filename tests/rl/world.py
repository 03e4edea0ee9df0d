"""A debate without models in which what agents say depends on what they hear."""

from __future__ import annotations

import hashlib

from goa_torch.rl.debates import Debates
from goa_torch.rl.settings import DebateConfig
from goa_torch.types import Reply
from tests.worlds import echo_pool


def hashed(chat) -> str:
    """One of three answers, by the prompt."""
    return f"so {int(hashlib.sha256(chat.text.encode()).hexdigest(), 16) % 3}"


def oracle(chat) -> str:
    """Only the agent of finance knows; the others say what they hear from whoever is not lost."""
    told = [line for line in chat.text.splitlines() if line.startswith("found")]
    number = int(chat.text.split("What is ")[1].split()[0])
    if "You are finance" in chat.text:
        return f"found {2 * number}"
    return told[0] if told else "lost no"


def cut_off(chat) -> Reply:
    return Reply("so 2", "length")


def debates(outputs=hashed, n: int = 6, **config) -> Debates:
    return Debates(echo_pool(outputs, n), DebateConfig(**config))
