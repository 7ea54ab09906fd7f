"""A session of redis-py with the server: `session.py PORT PROTOCOL [AUTHORITY]`, the last for TLS. Ends with an error where a promise is not kept."""

import sys
import threading

import redis

PORT, PROTOCOL = int(sys.argv[1]), int(sys.argv[2])
TLS = {"ssl": True, "ssl_ca_certs": sys.argv[3]} if len(sys.argv) > 3 else {}


def connect(**more):
    return redis.Redis(port=PORT, **TLS, protocol=PROTOCOL, decode_responses=True, **more)


def equal(found, wanted):
    assert found == wanted, f"{found!r} is not {wanted!r}"


def refused(call, word):
    """The call has to fail, with an error that begins like this."""
    try:
        answer = call()
    except redis.ResponseError as error:
        assert str(error).startswith(word), f"{error} does not begin with {word}"
    else:
        raise AssertionError(f"{answer!r} is no error")


def strings(r):
    equal(r.ping(), True)
    equal(r.set("name", "größe"), True)
    equal(r.get("name"), "größe")
    equal(r.get("nothing"), None)
    equal(r.set("name", "x", nx=True), None)
    equal(r.mset({"m:1": "a", "m:2": "b"}), True)
    equal(r.mget("m:1", "none", "m:2"), ["a", None, "b"])
    equal(r.incr("count", 5), 5)
    equal(float(r.incrbyfloat("price", 0.5)), 0.5)
    equal(r.delete("m:1", "m:2", "none"), 2)
    equal(r.client_getname(), "tests")


def raw_bytes():
    r = redis.Redis(port=PORT, **TLS, protocol=PROTOCOL)
    value = bytes(range(256))
    r.set("bytes", value)
    equal(r.get("bytes"), value)
    # These bytes are no text: the client says so, and the connection stays in step.
    with_text = connect()
    try:
        with_text.get("bytes")
    except UnicodeDecodeError:
        pass
    else:
        raise AssertionError("bytes that are no text were decoded")
    equal(with_text.get("name"), "größe")


def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for number in range(500):
            pipe.set(f"p:{number:03}", number).get(f"p:{number:03}")
        replies = pipe.execute()
    equal(replies, [part for number in range(500) for part in (True, str(number))])
    with r.pipeline(transaction=False) as pipe:
        replies = pipe.set("a", "text").incr("a").get("a").execute(raise_on_error=False)
    equal((replies[0], replies[2]), (True, "text"))
    assert isinstance(replies[1], redis.ResponseError), replies


def transactions(r):
    with r.pipeline() as pipe:
        equal(pipe.set("t", 1).incr("t").get("t").execute(), [True, 2, "2"])
    with r.pipeline() as pipe:
        pipe.watch("t")
        r.set("t", "somebody else's")
        pipe.multi()
        pipe.set("t", "mine")
        try:
            pipe.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("what was watched has changed, and EXEC did it")
    equal(r.get("t"), "somebody else's")


def retries(r):
    """Eight threads add to one number, read first and written then: none is lost."""
    r.set("sum", 0)

    def add(pipe):
        value = int(pipe.get("sum"))
        pipe.multi()
        pipe.set("sum", value + 1)

    def work():
        mine = connect()
        for _ in range(25):
            mine.transaction(add, "sum")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(r.get("sum"), "200")


def scans(r):
    found = list(r.scan_iter(match="p:*", count=37))
    equal(sorted(found), [f"p:{number:03}" for number in range(500)])


def expiry(r):
    r.set("short", "x", px=1)
    r.set("long", "x", ex=1000)
    assert 990 <= r.ttl("long") <= 1000
    equal(r.ttl("name"), -1)
    equal(r.ttl("nothing"), -2)
    equal(r.expire("name", 500), True)
    assert 490 <= r.ttl("name") <= 500
    equal(r.persist("name"), True)
    equal(r.ttl("name"), -1)
    while r.get("short") is not None:
        pass
    equal(r.exists("short"), 0)


def hashes(r):
    equal(r.hset("h", mapping={"a": "1", "b": "größe"}), 2)
    equal(r.hset("h", "a", "2"), 0)
    equal(r.hgetall("h"), {"a": "2", "b": "größe"})
    equal(r.hmget("h", "b", "none", "a"), ["größe", None, "2"])
    equal((r.hget("h", "a"), r.hget("h", "none"), r.hlen("h")), ("2", None, 2))
    equal((r.hkeys("h"), r.hvals("h"), r.hexists("h", "a")), (["a", "b"], ["2", "größe"], True))
    equal((r.hincrby("h", "a", 3), float(r.hincrbyfloat("h", "a", 0.5))), (5, 5.5))
    equal((r.hsetnx("h", "a", "x"), r.hstrlen("h", "a")), (0, 3))
    equal((sorted(r.hrandfield("h", 5)), len(r.hrandfield("h", -7))), (["a", "b"], 7))
    equal((r.type("h"), r.type("name"), r.exists("h", "name")), ("hash", "string", 2))
    equal(r.expire("h", 500), True)
    assert 490 <= r.ttl("h") <= 500
    equal(dict(r.hscan_iter("h", count=1)), r.hgetall("h"))
    refused(lambda: r.get("h"), "WRONGTYPE")
    refused(lambda: r.hget("name", "a"), "WRONGTYPE")
    with r.pipeline() as pipe:
        equal(pipe.hset("h2", "n", 1).hincrby("h2", "n", 1).hgetall("h2").execute(), [1, 2, {"n": "2"}])
    with r.pipeline() as pipe:
        pipe.watch("h2")
        r.hset("h2", "n", "somebody else's")
        pipe.multi()
        pipe.hset("h2", "n", "mine")
        try:
            pipe.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("what was watched has changed, and EXEC did it")
    equal(r.hdel("h2", "n", "none"), 1)
    equal((r.exists("h2"), r.delete("h")), (0, 1))
    raw = redis.Redis(port=PORT, **TLS, protocol=PROTOCOL)
    value = bytes(range(256))
    raw.hset("bytes-hash", value, value)
    equal(raw.hgetall("bytes-hash"), {value: value})


def records(r):
    ask = r.execute_command
    equal(ask("REC.SET", "task:1", "FIELDS", "state", "pending", "n", "9"), 1)
    equal(ask("REC.CAS", "task:1", "state", "IS", "pending", "claimed", "SET", "worker", "w1"), 2)
    equal(ask("REC.CAS", "task:1", "state", "IS", "pending", "claimed"), None)
    fields, counter, ttl = ask("REC.GET", "task:1")
    equal((dict(fields), counter, ttl), ({"n": "9", "state": "claimed", "worker": "w1"}, 2, -1))
    following, found = ask("REC.SCAN", "task:", "WHERE", "n", "<", "10")
    equal((following, [row[0] for row in found]), (None, ["task:1"]))
    equal(ask("REC.COUNT", "task:", "WHERE", "state", "IN", '["claimed","done"]'), 1)


def cells(r):
    equal(r.execute_command("CELL.CAS", "cell", "NIL", "one"), 1)
    equal(r.execute_command("CELL.CAS", "cell", "NIL", "two"), None)
    equal(r.execute_command("CELL.CAS", "cell", 1, "two"), 2)
    value, counter, _, revision = r.execute_command("CELL.GETV", "cell")
    equal((value, counter), ("two", 2))
    equal(r.execute_command("CELL.GET", "cell", "REV", revision - 1), "one")
    r.execute_command("BRANCH.FORK", "trial")
    assert "trial" in r.execute_command("BRANCH.LIST")
    r.execute_command("BRANCH.DELETE", "trial")


def errors(r):
    refused(lambda: r.incr("name"), "value is not an integer")
    refused(lambda: r.execute_command("NO.SUCH"), "unknown command")
    refused(lambda: r.execute_command("GET"), "wrong number of arguments")
    refused(lambda: r.execute_command("BRANCH.USE", "none"), "NOTFOUND")
    equal(r.ping(), True)


def changes(r):
    """Pushes of FEED.WATCH, taken off the connection as they come."""
    connection = r.connection_pool.get_connection()
    pushed = []
    connection._parser.set_pubsub_push_handler(lambda push: pushed.append(push))
    connection.send_command("FEED.WATCH", "PREFIX", "watched:")
    equal(connection.read_response(), "OK")
    for number in range(3):
        r.set(f"watched:{number}", number)
        r.set(f"other:{number}", number)
    while len(pushed) < 3:
        connection.read_response(push_request=True)
    equal([push[0] for push in pushed], ["feed"] * 3)
    equal([push[1][4] for push in pushed], [f"watched:{number}" for number in range(3)])
    connection.send_command("PING")
    equal(connection.read_response(), "PONG")


r = connect(client_name="tests")
r.flushdb()
strings(r)
raw_bytes()
pipelines(r)
transactions(r)
retries(r)
scans(r)
expiry(r)
hashes(r)
records(r)
cells(r)
errors(r)
if PROTOCOL == 3:
    changes(r)
print("done")
