"""Several processes that share the questions of a run: ``torchrun`` on CPUs, ``accelerate launch`` on GPUs."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from ..errors import UserError

T = TypeVar("T")
#: Ranks wait this long for the slowest one; a rank that dies is noticed by the launcher, not by the clock.
PATIENCE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes of a run. ``rank`` 0 is the one that writes and prints what there is one of."""

    rank: int = 0
    world: int = 1

    @property
    def main(self) -> bool:
        return self.rank == 0

    def share(self, things: Sequence[T]) -> list[T]:
        """This rank's part: every ``world``-th, so that parts are of one size whatever the order."""
        return list(things[self.rank :: self.world])

    def wait(self) -> None:
        """Until every rank is here."""
        if self.world > 1:
            from accelerate import PartialState

            PartialState().wait_for_everyone()

    def together(self, action: Callable[[], T]) -> T:
        """``action`` on every rank. If it raises :class:`UserError` anywhere, it does everywhere, said once."""
        value, error = None, None
        try:
            value = action()
        except UserError as raised:
            error = raised
        first = next((message for message in self._gather(str(error) if error else None) if message), None)
        if first is None:
            return value  # type: ignore[return-value]
        if self.main:
            raise UserError(first) from error
        raise SystemExit(2)  # rank 0 says what is wrong

    def _gather(self, value: Any) -> list[Any]:
        if self.world == 1:
            return [value]
        from accelerate.utils import gather_object

        return gather_object([value])


def start_ranks() -> Ranks:
    """Finds out from the launcher how many processes there are.

    Raises:
        UserError: if the launcher's WORLD_SIZE and what could be set up disagree; then every process would answer
            every question.
    """
    said = os.environ.get("WORLD_SIZE", "1")
    try:
        world = int(said)
    except ValueError:
        raise UserError(f"WORLD_SIZE={said!r} is not a number; start with torchrun or accelerate launch") from None
    if world == 1:
        return Ranks()
    missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise UserError(f"WORLD_SIZE={world} but {missing[0]} is not set: start with torchrun or accelerate launch, or "
                        "unset WORLD_SIZE")
    state = _set_up()
    if state.num_processes != world:
        raise UserError(f"WORLD_SIZE={world} but {state.num_processes} process is set up; "
                        f"use torchrun --nproc_per_node {world} on CPUs, accelerate launch on GPUs")
    return Ranks(state.process_index, state.num_processes)


def _set_up() -> Any:
    """accelerate's state of this process, its process group set up."""
    import torch
    from accelerate import PartialState
    from accelerate.utils import parse_flag_from_env

    ours = not torch.distributed.is_initialized()
    cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.cuda.is_available()
    state = PartialState(cpu=cpu, timeout=PATIENCE)
    if ours:
        atexit.register(state.destroy_process_group)
    return state
