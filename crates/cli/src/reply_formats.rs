//! The formats of the replies to all RESP commands.

use super::reply_format::ReplyFormat;

const CELL_VERSION: ReplyFormat =
    ReplyFormat::Record(&["value", "counter", "stamp_us", "revision"]);
const SUM: ReplyFormat = ReplyFormat::Record(&["value", "counter"]);
const HISTORY: ReplyFormat = ReplyFormat::Rows(&["counter", "value", "stamp_us", "revision"]);
const DIFFERENCES: ReplyFormat = ReplyFormat::Rows(&["contract", "key", "changed_by"]);
const TAGS: ReplyFormat = ReplyFormat::Rows(&["name", "branch", "revision"]);
const CHANGES: ReplyFormat =
    ReplyFormat::Rows(&["revision", "stamp_us", "branch", "contract", "key", "kind"]);

const RECORD: ReplyFormat = ReplyFormat::Record(&["fields", "counter", "ttl_ms"]);
const RECORDS: ReplyFormat = ReplyFormat::Page(&["key", "fields", "counter"]);
const VERSIONS: ReplyFormat = ReplyFormat::Rows(&["counter", "fields", "stamp_us", "revision"]);

/// The format of `REC.INDEX LIST`.
pub const INDEXES: ReplyFormat = ReplyFormat::Rows(&["id", "prefix", "fields", "ready", "filled"]);
const JOB_CLAIM: ReplyFormat = ReplyFormat::Record(&["id", "token", "data"]);
const JOBS: ReplyFormat =
    ReplyFormat::Page(&["id", "state", "worker", "retries", "updated_at_ms", "error"]);
const JOB_VERSIONS: ReplyFormat =
    ReplyFormat::Rows(&["counter", "state", "worker", "step", "error", "stamp_us", "revision"]);
const SWEEP_COUNTS: ReplyFormat = ReplyFormat::Record(&["retried", "failed"]);
const APPEND_RESULT: [&str; 6] =
    ["seq", "idempotent", "persisted", "conflict", "event_id", "persisted_at"];
const RUN: ReplyFormat = ReplyFormat::Record(&[
    "status",
    "last_seq",
    "inconsistent",
    "created_us",
    "updated_us",
    "revision",
    "metadata",
]);
const EVENTS: ReplyFormat = ReplyFormat::Rows(&["seq", "event"]);
const ALERTS: ReplyFormat = ReplyFormat::Rows(&["seq", "message", "stamp_us"]);
const MESSAGES: ReplyFormat = ReplyFormat::Rows(&["id", "subject", "payload"]);
/// Messages with their fencing token.
pub const CLAIMED_MESSAGES: ReplyFormat = ReplyFormat::Rows(&["id", "subject", "payload", "token"]);
const DEAD_MESSAGES: ReplyFormat =
    ReplyFormat::Rows(&["id", "subject", "payload", "tries", "error"]);
const OUTBOX: ReplyFormat = ReplyFormat::Record(&["pending", "dead", "last_id", "oldest_due_us"]);
const STATE: ReplyFormat = ReplyFormat::Record(&["value", "version"]);
const STATES: ReplyFormat = ReplyFormat::Page(&["key", "value", "version"]);
const ITEMS: ReplyFormat = ReplyFormat::Rows(&["id", "item"]);
const POSITIONS: ReplyFormat = ReplyFormat::Rows(&["source", "position"]);
const WAITING_WRITES: ReplyFormat = ReplyFormat::Rows(&["key", "version", "value"]);
const REQUESTS: ReplyFormat = ReplyFormat::Rows(&["number", "payload"]);
const RETRIES: ReplyFormat = ReplyFormat::Rows(&["session", "number", "payload"]);
const HOLDER: ReplyFormat = ReplyFormat::Record(&["owner", "token", "until_us"]);

/// The number of words before the inner command: `SESSION.DO id number LOWEST n`.
const REQUEST_OFFSET: usize = 5;

/// The format of a command's reply. `SESSION.DO` replies like the command inside it.
pub fn of_words(words: &[Vec<u8>]) -> ReplyFormat {
    let name = |place: usize| {
        let word = words.get(place).map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(word).to_ascii_lowercase()
    };
    match name(0).as_str() {
        "session.do" => of_command(&name(REQUEST_OFFSET)),
        plain => of_command(plain),
    }
}

/// The format of a command's reply, by the command's name in any case.
pub fn of_command(name: &str) -> ReplyFormat {
    match name.to_ascii_lowercase().as_str() {
        "cell.init" | "cell.set" | "cell.cas" => ReplyFormat::One("counter"),
        "cell.get" => ReplyFormat::One("value"),
        "cell.getv" => CELL_VERSION,
        "cell.incr" => SUM,
        "cell.history" => HISTORY,
        "cell.list" | "branch.list" => ReplyFormat::List("name"),
        "cell.del" | "branch.delete" | "tag.del" => ReplyFormat::Flag("deleted"),
        "rec.set" | "rec.replace" | "rec.cas" => ReplyFormat::One("counter"),
        "rec.get" => RECORD,
        "rec.scan" => RECORDS,
        "rec.history" => VERSIONS,
        "rec.count" => ReplyFormat::One("count"),
        "rec.explain" => ReplyFormat::One("explanation"),
        "job.submit" | "job.done" | "job.fail" | "job.cancel" | "job.retry" => {
            ReplyFormat::One("state")
        }
        "job.claim" => JOB_CLAIM,
        "job.beat" | "job.step" | "lock.renew" => ReplyFormat::Flag("held"),
        "job.get" => RECORD,
        "job.data" | "job.result" => ReplyFormat::One("value"),
        "job.list" => JOBS,
        "job.count" => ReplyFormat::One("count"),
        "job.history" => JOB_VERSIONS,
        "job.sweep" => SWEEP_COUNTS,
        "run.append" => ReplyFormat::Record(&APPEND_RESULT),
        "run.batch" => ReplyFormat::Rows(&APPEND_RESULT),
        "run.bootstrap" => ReplyFormat::List("seq"),
        "run.fetch" | "run.tail" => EVENTS,
        "run.snapshot" | "run.project" => ReplyFormat::Object,
        "run.key" => ReplyFormat::One("key"),
        "run.info" => RUN,
        "run.alerts" => ALERTS,
        "run.revision" => ReplyFormat::One("revision"),
        "run.list" => ReplyFormat::List("run"),
        "run.delete" => ReplyFormat::Flag("deleted"),
        "outbox.put" => ReplyFormat::One("id"),
        "outbox.claim" => MESSAGES,
        "outbox.ack" => ReplyFormat::One("acknowledged"),
        "outbox.fail" => ReplyFormat::One("became"),
        "outbox.dead" => DEAD_MESSAGES,
        "outbox.replay" => ReplyFormat::Flag("replayed"),
        "outbox.state" => OUTBOX,
        "state.put" | "state.del" => ReplyFormat::Flag("applied"),
        "state.append" => ReplyFormat::Flag("appended"),
        "state.advance" => ReplyFormat::Flag("advanced"),
        "state.create" => ReplyFormat::Flag("created"),
        "state.drop" => ReplyFormat::Flag("dropped"),
        "state.get" => STATE,
        "state.list" => ReplyFormat::List("key"),
        "state.scan" => STATES,
        "state.items" => ITEMS,
        "state.positions" => POSITIONS,
        "state.waiting" => WAITING_WRITES,
        "state.spaces" => ReplyFormat::List("space"),
        "state.info" => ReplyFormat::Object,
        "state.seal" => ReplyFormat::One("settled"),
        "state.restore" => ReplyFormat::One("entries"),
        "session.open" => ReplyFormat::One("session"),
        "session.send" => ReplyFormat::One("number"),
        "session.pending" => REQUESTS,
        "session.retry" => RETRIES,
        "session.ack" => ReplyFormat::One("acknowledged"),
        "session.close" => ReplyFormat::Flag("closed"),
        "session.info" => ReplyFormat::Object,
        "lock.take" => ReplyFormat::One("token"),
        "lock.free" => ReplyFormat::Flag("freed"),
        "lock.get" => HOLDER,
        "branch.info" => ReplyFormat::Object,
        "branch.diff" => DIFFERENCES,
        "branch.fork" | "branch.merge" | "tag.set" | "txn.commit" | "revision" => {
            ReplyFormat::One("revision")
        }
        "tag.list" => TAGS,
        "feed.read" => CHANGES,
        _ => ReplyFormat::Any,
    }
}
