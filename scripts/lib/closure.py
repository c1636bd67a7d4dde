"""What can be come to, step by step: the files that an include leads to, the functions of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def closure(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> set[T]:
    """The starts, what follows one of them, what follows one of that, …"""
    found: set[T] = set()
    pending = list(starts)
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending.extend(following(one))
    return found
