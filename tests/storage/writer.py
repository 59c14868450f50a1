"""A process that writes batches and prints the number of each that is durable, until it is killed.

Batch n appends ``1 + n % 7`` records of the form ``n i``, notes n as the value of ``last``, and every tenth
batch drops what is older than a hundred records. So from what is found later one can tell which batches are
there, and whether one is there in part.
"""

from __future__ import annotations

import sys

from gapless.storage import Append, Change, Put, Store, Truncate, open_store

LOG = "events"
KEPT = 100


def batch_of(number: int, store: Store) -> list[Change]:
    records = [b"%d %d %s" % (number, i, b"." * (number * 37 % 3000)) for i in range(1 + number % 7)]
    batch: list[Change] = [Append(LOG, each) for each in records]
    if number % 10 == 0:
        batch.append(Truncate(LOG, max(0, store.logs[LOG].stop - KEPT)))
    return [*batch, Put("last", b"%d" % number)]


def assert_batches_are_whole(store: Store) -> int:
    """What is there is what the batches up to one of them have left; that one."""
    last = int(store.state.get("last", b"0"))
    if last == 0:
        assert not store.logs
        return 0
    span = store.logs[LOG]
    assert span.stop - 1 == sum(1 + n % 7 for n in range(1, last + 1))
    found = [tuple(map(int, each.split()[:2])) for each in store.read(LOG, span.start, span.stop - 1)]
    expected = [(n, i) for n in range(1, last + 1) for i in range(1 + n % 7)]
    assert found == expected[span.start - 1 :]
    return last


def main() -> None:
    place, node = sys.argv[1:]
    with open_store(place, node) as store:
        number = int(store.state.get("last", b"0"))
        while True:
            number += 1
            store.write(batch_of(number, store))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
