"""Several transfers at once; the first that fails stops those that have not begun."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_ONCE = 4
Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in the order of the items; raises what the first failing one raised."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
