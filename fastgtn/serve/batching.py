"""Requests that wait at the same time are answered by one computation."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

Row = dict[str, Any]
T = TypeVar("T")
MOST_WAITING = 2_000  # requests


class BusyError(Exception):
    """Too many requests are waiting."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    numbers: list[int]
    answer: "asyncio.Future[list[Row]]"


class MicroBatches:
    """Collects the requests that arrive while a batch is computed, and computes them together next.

    A request that comes alone never waits for others. One thread computes, so that the event loop stays free.

    Args:
        compute: The rows of some node numbers, in their order.
        most_nodes: A batch takes further requests while it has fewer nodes than this.
    """

    def __init__(self, compute: Callable[[list[int]], list[Row]], *, most_nodes: int) -> None:
        self.compute, self.most_nodes = compute, most_nodes
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="fastgtn-score")
        self.queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self.batches = self.requests = self.waiting = 0

    async def answer(self, numbers: list[int]) -> list[Row]:
        """The rows of these nodes, as soon as a batch with them is computed."""
        with self._place():
            future: asyncio.Future[list[Row]] = asyncio.get_running_loop().create_future()
            await self.queue.put(_Waiting(numbers, future))
            return await future

    async def alone(self, work: Callable[[], T]) -> T:
        """Run other work on the same thread, between two batches."""
        with self._place():
            return await asyncio.get_running_loop().run_in_executor(self.pool, work)

    async def run(self) -> None:
        """Compute batches until this is cancelled."""
        while True:
            batch = [await self.queue.get()]
            while not self.queue.empty() and sum(len(each.numbers) for each in batch) < self.most_nodes:
                batch.append(self.queue.get_nowait())
            await self._compute(batch)

    async def _compute(self, batch: list[_Waiting]) -> None:
        numbers = [number for each in batch for number in each.numbers]
        self.batches, self.requests = self.batches + 1, self.requests + len(batch)
        try:
            rows = await asyncio.get_running_loop().run_in_executor(self.pool, self.compute, numbers)
        except Exception as error:  # every error must reach the requests that wait
            for each in batch:
                if not each.answer.done():
                    each.answer.set_exception(error)
            return
        start = 0
        for each in batch:
            if not each.answer.done():
                each.answer.set_result(rows[start : start + len(each.numbers)])
            start += len(each.numbers)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place among those who wait, if there is one."""
        if self.waiting >= MOST_WAITING:
            raise BusyError
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
