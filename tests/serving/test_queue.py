"""The queue: batches are alike and bounded, short requests overtake long ones, nothing starves."""

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from zoo.checkpoint.about import About
from zoo.serving.api import Api, options_of_pieces
from zoo.serving.errors import QueueFullError
from zoo.serving.limits import Limits
from zoo.serving.queue import NEAR, Item, Queue
from zoo.serving.schema import StreamRequest
from zoo.translation.sentences import Lines


@pytest.fixture(autouse=True)
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def item(length: int, key: str = "a", width: int = 1) -> Item:
    future = asyncio.get_event_loop_policy().get_event_loop().create_future()
    return Item(key, {"checkpoint": key}, "x" * length, length, future, width)


def drain(queue: Queue, clock: Clock, idle: int = 1, workers: int = 1) -> Iterator[list[Item]]:
    while len(queue):
        batch, wait = queue.take(idle, workers, 0)
        if batch:
            yield batch
        else:
            assert wait is not None
            clock.now += wait


def test_every_item_leaves_once_in_batches_that_are_alike_and_bounded() -> None:
    draw = random.Random(1)
    limits = Limits(batch_texts=7, batch_characters=2_000, queue_texts=10_000)
    clock = Clock()
    queue = Queue(limits, clock)
    given = [item(draw.randrange(400), draw.choice("ab"), 2) for _ in range(300)]
    for start in range(0, 300, 10):
        queue.add(given[start : start + 10])
    seen: list[Item] = []
    for batch in drain(queue, clock):
        assert len({one.key for one in batch}) == 1
        assert len(batch) <= 7
        longest = max(one.length for one in batch)
        assert len(batch) == 1 or len(batch) * (longest + 1) * 2 <= 2_000
        low = min(one.length for one in batch)
        assert longest <= max(4 * low, low + 2 * NEAR, 2 * batch[0].length)
        seen += batch
    assert len(seen) == 300
    assert set(seen) == set(given)
    assert queue.characters == 0


def test_a_short_request_overtakes_the_rest_of_a_long_one() -> None:
    clock = Clock()
    queue = Queue(Limits(batch_texts=10), clock)
    long = [item(100) for _ in range(200)]
    queue.add(long)
    first, _ = queue.take(1, 1, 0)
    short = item(100)
    queue.add([short])
    order = [first, *drain(queue, clock)]
    turn = next(i for i, batch in enumerate(order) if short in batch)
    assert turn <= 2


def test_a_long_text_is_not_starved_by_a_stream_of_short_ones() -> None:
    clock = Clock()
    queue = Queue(Limits(batch_texts=1), clock)
    long = item(900)
    queue.add([long])
    batches = []
    for _ in range(100):
        queue.add([item(50)])
        clock.now += 1
        batches.append(queue.take(1, 1, 0)[0])
    assert next(i for i, batch in enumerate(batches) if long in batch) < 900 / 50 + 2


def test_long_texts_never_occupy_the_last_worker() -> None:
    clock = Clock()
    queue = Queue(Limits(long_characters=100), clock)
    queue.add([item(500)])
    clock.now = 1
    assert queue.take(1, 2, 1) == ([], None)
    queue.add([item(10)])
    clock.now = 2
    assert [one.length for one in queue.take(1, 2, 1)[0]] == [10]
    assert [one.length for one in queue.take(1, 2, 0)[0]] == [500]
    queue.add([item(500)])
    clock.now = 3
    assert queue.take(1, 1, 1)[0]  # a single worker takes everything


def test_a_text_with_one_long_sentence_is_long() -> None:
    queue = Queue(Limits(), Clock())
    future = asyncio.get_event_loop_policy().get_event_loop().create_future()
    texts = {"word " * 100: True, "A short sentence. " * 40: False, "字" * 301: True,
             ("字" * 90 + "。") * 5: False, "": False}  # fmt: skip
    for text, expected in texts.items():
        assert queue.is_long(Item("a", {}, text, len(text), future)) is expected, text[:20]


def test_a_text_waits_for_company_but_not_longer_than_agreed() -> None:
    clock = Clock()
    queue = Queue(Limits(batch_wait=0.5), clock)
    queue.add([item(10)])
    batch, wait = queue.take(1, 2, 0)
    assert not batch
    assert wait == 0.5
    clock.now = 0.4
    queue.add([item(10)])
    batch, wait = queue.take(1, 2, 0)
    assert wait == pytest.approx(0.1)
    clock.now = 0.5
    assert len(queue.take(1, 2, 0)[0]) == 2


def test_a_text_does_not_wait_while_all_workers_are_idle() -> None:
    queue = Queue(Limits(batch_wait=0.5), Clock())
    queue.add([item(10)])
    assert len(queue.take(2, 2, 0)[0]) == 1


def test_idle_workers_share_what_waits() -> None:
    clock = Clock()
    queue = Queue(Limits(), clock)
    queue.add([item(10) for _ in range(64)])
    clock.now = 1
    assert len(queue.take(2, 2, 0)[0]) == 32
    assert len(queue.take(1, 2, 0)[0]) == 32


def test_a_full_queue_refuses_whole_requests_and_recovers() -> None:
    clock = Clock()
    queue = Queue(Limits(queue_texts=10, queue_characters=1_000), clock)
    queue.add([item(10) for _ in range(6)])
    with pytest.raises(QueueFullError, match="6 of at most 10"):
        queue.add([item(10) for _ in range(5)])
    with pytest.raises(QueueFullError, match="60 of at most 1,000 characters wait"):
        queue.add([item(980)])
    assert len(queue) == 6
    assert sum(map(len, drain(queue, clock))) == 6
    queue.add([item(5_000)])  # an empty queue takes any request that the limits allow


def test_cancelled_items_leave() -> None:
    clock = Clock()
    queue = Queue(Limits(), clock)
    given = [item(10) for _ in range(4)]
    queue.add(given)
    queue.discard(given[0])
    given[1].future.cancel()
    clock.now = 1
    assert set(queue.take(1, 1, 0)[0]) == set(given[2:])
    assert len(queue) == queue.characters == 0


class Busy:
    """A service whose queue is full for texts that end with a question mark."""

    limits = Limits()

    def __init__(self, times: int) -> None:
        self.times = times

    async def translate(self, served: Any, texts: list[str], options: Any, **_: Any) -> list[bytes]:
        if texts[0].endswith("?") and self.times:
            self.times -= 1
            raise QueueFullError(20, 20, "texts")
        return [json.dumps({"text": texts[0].upper(), "score": 0.0}).encode()]


@pytest.mark.parametrize("times", [1, 2])
def test_a_stream_that_has_begun_waits_for_room_in_the_queue(times: int) -> None:
    async def received(texts: list[str]) -> list[str]:
        service: Any = Busy(times)
        served: Any = SimpleNamespace(about=About())
        asked = StreamRequest(checkpoint="any", text="")
        events = Api(service)._events(served, list(enumerate(texts)), asked)
        return [json.loads(event.split(b"data: ")[1]).get("text", "") async for event in events]

    assert asyncio.run(received(["a", "b?", "c"])) == ["A", "B?", "C", ""]
    with pytest.raises(QueueFullError):  # before the first event, the request gets status 429
        asyncio.run(received(["a?", "b"]))


def test_a_long_text_is_split_beside_the_event_loop() -> None:
    threads = []

    def splitter(*_: object) -> Lines:
        threads.append(threading.current_thread())
        return Lines("")

    async def receive() -> dict[str, Any]:
        body = json.dumps({"checkpoint": "any", "text": "a\nb"}).encode()
        return {"type": "http.request", "body": body}

    service: Any = Busy(0)
    service.checkpoints = SimpleNamespace(named=lambda name: SimpleNamespace(about=About()))
    api = Api(service)
    vars(api)["_splitter"] = splitter
    answer = asyncio.run(api.stream(Request({"type": "http", "headers": []}, receive)))
    assert answer.status_code == 200
    assert threading.main_thread() not in threads != []


def test_lines_with_the_tags_of_tasks_are_split_where_their_language_is_known() -> None:
    served: Any = SimpleNamespace(about=About(tasks={"en-fr: ": ("en", "fr")}))
    plain: Any = SimpleNamespace(about=About(("en",), ("fr",)))
    for asked, of_tasks, of_plain in (({}, "", "lines"), ({"splitter": "x"}, "x", "lines")):
        request = StreamRequest(checkpoint="any", text="en-fr: A. B.", **asked)
        assert options_of_pieces(served, request)["splitter"] == of_tasks
        assert options_of_pieces(plain, request)["splitter"] == of_plain
    whole = StreamRequest(checkpoint="any", text="en-fr: A. B.", split=False)
    assert options_of_pieces(served, whole) == options_of_pieces(plain, whole)
