"""redis-py as users of the server: `users.py PORT PROTOCOL PASSWORD`. Ends with an error where a promise is not kept."""

import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PORT, PROTOCOL, PASSWORD = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def connect(**who):
    # A wrong password does not become right by being given again.
    retry = Retry(NoBackoff(), 0)
    return redis.Redis(port=PORT, protocol=PROTOCOL, decode_responses=True, retry=retry, **who)


def refused(call, kind):
    """The call has to fail in this way."""
    try:
        answer = call()
    except kind:
        return
    raise AssertionError(f"{answer!r} is no error")


app = connect(username="app", password=PASSWORD)
assert app.acl_whoami() == "app"
assert app.set("app:a", "1") and app.get("app:a") == "1"
assert list(app.scan_iter("app:*")) == ["app:a"]
refused(lambda: app.get("other"), redis.exceptions.NoPermissionError)
pipe = app.pipeline(transaction=True).set("app:a", "2").set("other", "2")
refused(pipe.execute, redis.exceptions.ResponseError)
assert app.get("app:a") == "1"
assert connect(password=PASSWORD).acl_whoami() == "default"
refused(connect(username="app", password="wrong").ping, redis.exceptions.AuthenticationError)
refused(connect().ping, redis.exceptions.AuthenticationError)
print("done")
