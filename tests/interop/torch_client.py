# SPDX-License-Identifier: MIT
"""Calls every operation of PyTorch's client on the store at a port; the checks have the names of
those in store_interop.cpp.

    torch_client.py PORT
"""
import sys
import threading
from datetime import timedelta

from torch.distributed import PrefixStore, TCPStore

from checks import TIMEOUT, connect, exit_with, expect, report

PORT = int(sys.argv[1])
TEXT = "".join(map(chr, range(0x250)))  # PyTorch's API takes only text, sends UTF-8


def error_of(body):
    """Returns the text of body()'s exception, or None if it raises nothing."""
    try:
        body()
    except Exception as error:
        return str(error)
    return None


def set_and_get(store):
    store.set("set", "first")
    store.set("set", "second")
    expect(store.get("set") == b"second", "the value set last")
    store.set("empty", "")
    expect(store.get("empty") == b"", "an empty value")
    store.set("binary", TEXT)
    expect(store.get("binary") == TEXT.encode(), "every byte that UTF-8 has")


def large_value(store):
    large = "x" * ((20 << 20) - 1) + "y"
    store.set("large", large)
    expect(store.get("large") == large.encode(), "all of it back")


def add(store):
    expect(store.add("counter", 5) == 5, "5")
    expect(store.add("counter", -7) == -2, "-2")
    expect(store.get("counter") == b"-2", "decimal text")
    store.set("text number", "41")
    expect(store.add("text number", 1) == 42, "42")


def compare_set(store):
    expect(store.compare_set("compare", "x", "y") == b"x", "x: missing, not empty expected")
    expect(not store.check(["compare"]), "no key yet")
    expect(store.compare_set("compare", "", "y") == b"y", "y: missing, empty expected")
    expect(store.compare_set("compare", "wrong", "z") == b"y", "y: another value")
    expect(store.compare_set("compare", "y", "z") == b"z", "z: the right value")


def check(store):
    store.set("checked", "1")
    expect(store.check(["checked"]), "true for a key that exists")
    expect(not store.check(["checked", "missing"]), "false if one is missing")


def wait(store):
    setter = connect(PORT)

    def set_both():
        setter.set("late 1", "1")
        setter.add("late 2", 1)

    thread = threading.Timer(0.05, set_both)
    thread.start()
    store.wait(["late 1", "late 2"], TIMEOUT)
    thread.join()
    store.wait(["late 1", "late 2"], TIMEOUT)


def wait_timeout(store):
    for number in range(3):
        error = error_of(lambda: store.wait(["never"], timedelta(milliseconds=30)))
        expect(error is not None and "timeout" in error.lower(), f"a timeout, not {error!r}")
        store.set("after timeout", str(number))
        expect(store.get("after timeout") == str(number).encode(), "a connection in step")


def delete_key(store):
    store.set("doomed", "1")
    expect(store.delete_key("doomed"), "true")
    expect(not store.delete_key("doomed"), "false the second time")
    expect(not store.check(["doomed"]), "the key gone")


def append(store):
    store.append("log", "ab")
    store.append("log", "cd")
    expect(store.get("log") == b"abcd", "abcd")


def multi_get_and_multi_set(store):
    store.multi_set(["m1", "m2"], ["1", TEXT])
    expect(store.multi_get(["m2", "m1", "m2"]) == [TEXT.encode(), b"1", TEXT.encode()],
           "the values in the order asked for")


def num_keys(store):
    before = store.num_keys()
    store.set("one more", "1")
    expect(store.num_keys() == before + 1, "one key more")


def prefix_store(store):
    nested = PrefixStore("cpu/", PrefixStore("default_pg", store))
    nested.set("x", "1")
    expect(store.get("default_pg/cpu//x") == b"1", "the joined key")
    expect(nested.get("x") == b"1", "the value")


def many_clients(store):
    clients = [connect(PORT) for _ in range(64)]
    threads = [threading.Thread(target=client.add, args=("clients", 1)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(store.get("clients") == b"64", "one count a client")


def contained_error(store):
    """A client that is dropped because it adds to text does not affect other clients."""
    store.set("text", "not a number")
    other = connect(PORT)
    expect(error_of(lambda: other.add("text", 1)) is not None, "an error")
    expect(store.get("text") == b"not a number", "the others served")


def queue(store):
    store.queue_push("queue", "first")
    store.queue_push("queue", "second")
    expect(store.queue_len("queue") == 2, "two elements")
    expect(store.queue_pop("queue") == b"first", "the first")
    expect(store.queue_pop("queue", False) == b"second", "the second")
    expect(error_of(lambda: store.queue_pop("queue", False)) is not None, "an empty queue")


def list_keys(store):
    store.set("listed", "1")
    expect("listed" in store.list_keys(), "the key in the list")


def barrier(store):
    other = connect(PORT)
    thread = threading.Thread(target=other.barrier, args=("barrier", 2, TIMEOUT))
    thread.start()
    store.barrier("barrier", 2, TIMEOUT)
    thread.join()


CHECKS = (set_and_get, large_value, add, compare_set, check, wait, wait_timeout, delete_key, append,
          multi_get_and_multi_set, num_keys, prefix_store, many_clients, contained_error)
NEW_CHECKS = {"queue_push": queue, "list_keys": list_keys, "barrier": barrier}

passed = True
for body in CHECKS:
    name = body.__name__.replace("_", " ")
    passed = report(name, lambda: body(connect(PORT))) and passed
for method, body in NEW_CHECKS.items():
    name = body.__name__.replace("_", " ")
    if hasattr(TCPStore, method):
        passed = report(name, lambda: body(connect(PORT))) and passed
    else:
        print(f"skipped {name}: this PyTorch has no TCPStore.{method}", flush=True)
exit_with(passed)
