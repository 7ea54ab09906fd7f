//! The shapes of the replies to all RESP commands.

use super::shape::Shape;

const VERSIONED: Shape = Shape::Record(&["value", "counter", "stamp_us", "revision"]);
const SUM: Shape = Shape::Record(&["value", "counter"]);
const HISTORY: Shape = Shape::Rows(&["counter", "value", "stamp_us", "revision"]);
const DIFFERENCES: Shape = Shape::Rows(&["contract", "key", "changed_by"]);
const TAGS: Shape = Shape::Rows(&["name", "branch", "revision"]);
const CHANGES: Shape = Shape::Rows(&["revision", "stamp_us", "branch", "contract", "key", "kind"]);

const RECORD: Shape = Shape::Record(&["fields", "counter", "ttl_ms"]);
const RECORDS: Shape = Shape::Page(&["key", "fields", "counter"]);
const VERSIONS: Shape = Shape::Rows(&["counter", "fields", "stamp_us", "revision"]);

/// The shape of `REC.INDEX LIST`.
pub const INDEXES: Shape = Shape::Rows(&["id", "prefix", "fields", "ready", "filled"]);
const CLAIMED: Shape = Shape::Record(&["id", "token", "data"]);
const JOBS: Shape = Shape::Page(&["id", "state", "worker", "retries", "updated_at_ms", "error"]);
const JOB_VERSIONS: Shape =
    Shape::Rows(&["counter", "state", "worker", "step", "error", "stamp_us", "revision"]);
const SWEPT: Shape = Shape::Record(&["retried", "failed"]);
const APPENDED: [&str; 6] =
    ["seq", "idempotent", "persisted", "conflict", "event_id", "persisted_at"];
const RUN: Shape = Shape::Record(&[
    "status",
    "last_seq",
    "inconsistent",
    "created_us",
    "updated_us",
    "revision",
    "metadata",
]);
const EVENTS: Shape = Shape::Rows(&["seq", "event"]);
const ALERTS: Shape = Shape::Rows(&["seq", "message", "stamp_us"]);
const MESSAGES: Shape = Shape::Rows(&["id", "subject", "payload"]);
/// Messages with their fencing token.
pub const HELD: Shape = Shape::Rows(&["id", "subject", "payload", "token"]);
const DEAD: Shape = Shape::Rows(&["id", "subject", "payload", "tries", "error"]);
const OUTBOX: Shape = Shape::Record(&["pending", "dead", "last_id", "oldest_due_us"]);
const STATE: Shape = Shape::Record(&["value", "version"]);
const STATES: Shape = Shape::Page(&["key", "value", "version"]);
const ITEMS: Shape = Shape::Rows(&["id", "item"]);
const POSITIONS: Shape = Shape::Rows(&["source", "position"]);
const WAITING: Shape = Shape::Rows(&["key", "version", "value"]);
const REQUESTS: Shape = Shape::Rows(&["number", "payload"]);
const RETRIES: Shape = Shape::Rows(&["session", "number", "payload"]);
const HOLDER: Shape = Shape::Record(&["owner", "token", "until_us"]);

/// The number of words before the inner command: `SESSION.DO id number LOWEST n`.
const BEFORE_REQUEST: usize = 5;

/// The shape of a command's reply. `SESSION.DO` replies like the command inside it.
pub fn shape_of(words: &[Vec<u8>]) -> Shape {
    let name = |place: usize| {
        let word = words.get(place).map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(word).to_ascii_lowercase()
    };
    match name(0).as_str() {
        "session.do" => shape(&name(BEFORE_REQUEST)),
        plain => shape(plain),
    }
}

/// The shape of a command's reply, by the command's name in any case.
pub fn shape(name: &str) -> Shape {
    match name.to_ascii_lowercase().as_str() {
        "cell.init" | "cell.set" | "cell.cas" => Shape::One("counter"),
        "cell.get" => Shape::One("value"),
        "cell.getv" => VERSIONED,
        "cell.incr" => SUM,
        "cell.history" => HISTORY,
        "cell.list" | "branch.list" => Shape::List("name"),
        "cell.del" | "branch.delete" | "tag.del" => Shape::Did("deleted"),
        "rec.set" | "rec.replace" | "rec.cas" => Shape::One("counter"),
        "rec.get" => RECORD,
        "rec.scan" => RECORDS,
        "rec.history" => VERSIONS,
        "rec.count" => Shape::One("count"),
        "rec.explain" => Shape::One("explanation"),
        "job.submit" | "job.done" | "job.fail" | "job.cancel" | "job.retry" => Shape::One("state"),
        "job.claim" => CLAIMED,
        "job.beat" | "job.step" | "lock.renew" => Shape::Did("held"),
        "job.get" => RECORD,
        "job.data" | "job.result" => Shape::One("value"),
        "job.list" => JOBS,
        "job.count" => Shape::One("count"),
        "job.history" => JOB_VERSIONS,
        "job.sweep" => SWEPT,
        "run.append" => Shape::Record(&APPENDED),
        "run.batch" => Shape::Rows(&APPENDED),
        "run.bootstrap" => Shape::List("seq"),
        "run.fetch" | "run.tail" => EVENTS,
        "run.snapshot" | "run.project" => Shape::Object,
        "run.key" => Shape::One("key"),
        "run.info" => RUN,
        "run.alerts" => ALERTS,
        "run.revision" => Shape::One("revision"),
        "run.list" => Shape::List("run"),
        "run.delete" => Shape::Did("deleted"),
        "outbox.put" => Shape::One("id"),
        "outbox.claim" => MESSAGES,
        "outbox.ack" => Shape::One("acknowledged"),
        "outbox.fail" => Shape::One("became"),
        "outbox.dead" => DEAD,
        "outbox.replay" => Shape::Did("replayed"),
        "outbox.state" => OUTBOX,
        "state.put" | "state.del" => Shape::Did("applied"),
        "state.append" => Shape::Did("appended"),
        "state.advance" => Shape::Did("advanced"),
        "state.create" => Shape::Did("created"),
        "state.drop" => Shape::Did("dropped"),
        "state.get" => STATE,
        "state.list" => Shape::List("key"),
        "state.scan" => STATES,
        "state.items" => ITEMS,
        "state.positions" => POSITIONS,
        "state.waiting" => WAITING,
        "state.spaces" => Shape::List("space"),
        "state.info" => Shape::Object,
        "state.seal" => Shape::One("settled"),
        "state.restore" => Shape::One("entries"),
        "session.open" => Shape::One("session"),
        "session.send" => Shape::One("number"),
        "session.pending" => REQUESTS,
        "session.retry" => RETRIES,
        "session.ack" => Shape::One("acknowledged"),
        "session.close" => Shape::Did("closed"),
        "session.info" => Shape::Object,
        "lock.take" => Shape::One("token"),
        "lock.free" => Shape::Did("freed"),
        "lock.get" => HOLDER,
        "branch.info" => Shape::Object,
        "branch.diff" => DIFFERENCES,
        "branch.fork" | "branch.merge" | "tag.set" | "txn.commit" | "revision" => {
            Shape::One("revision")
        }
        "tag.list" => TAGS,
        "feed.read" => CHANGES,
        _ => Shape::Any,
    }
}
