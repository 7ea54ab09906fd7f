//! Commands of exactly-once sessions: `SESSION.*`.
//!
//! ```text
//!   SESSION.SEND, ACK, PENDING, INFO, LIST    --> Plan, as for all data
//!   SESSION.OPEN, KEEPALIVE, CLOSE, RETRY     --> Plan that is a transaction of its own
//!   SESSION.DO, EXEC                          --> a session request: see `once.rs`
//! ```

use super::records::count_reply;
use super::runs::changed;
use crate::resp::arguments::{Arguments, parse_all, set_once, syntax_error};
use crate::resp::multi;
use crate::resp::permissions::KeyScope;
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::{OK, Reply};
use crate::resp::session_request;
use crate::resp::table::{Group, Handler, Spec};
use crate::sessions::Told;
use mainstay::{
    Answer, MAILBOX_LIMIT, Name, SessionAnswer, SessionCommand, SessionInfo, SessionOptions,
    SessionPage, Stamp,
};
use std::time::Duration;

/// The default limit for sessions in a list and for retried requests.
const DEFAULT_LIMIT: usize = 1000;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("session.open", -1, Handler::OwnTransaction(open))
        .writes()
        .syntax("[ID id] [LEASE ms] [CAP name value ...]")
        .summarize("Opens a session, or finds the one of this id; its id"),
    request_of("session.do", -6, Handler::Pipelined(session_request::execute))
        .without_data()
        .writes()
        .syntax("id request LOWEST n command [argument ...]")
        .summarize("Does a command once, however often it is sent: a repeat is answered the same"),
    request_of("session.exec", 5, Handler::Control(multi::session_exec))
        .without_data()
        .writes()
        .syntax("id request LOWEST n")
        .summarize("Does what MULTI kept, all at once, and once however often it is sent"),
    session("session.send", 3, Handler::Plan(send)).writes().syntax("id payload").summarize(
        "Sends a request to a session's client; its number, or nil without such a session",
    ),
    session("session.pending", -2, Handler::Plan(pending))
        .syntax("id [AFTER n] [LIMIT n]")
        .summarize("What a session's client has not acknowledged: number, payload"),
    of("session.retry", -2, Handler::OwnTransaction(retry))
        .writes()
        .syntax("sent-before-us [LIMIT n]")
        .summarize("What was sent before this and is not acknowledged; it counts as sent now"),
    session("session.ack", 3, Handler::Plan(acknowledge))
        .writes()
        .syntax("id n")
        .summarize("The client has done all requests up to this number; how many that were"),
    session("session.keepalive", -2, Handler::OwnTransaction(keep_alive))
        .writes()
        .syntax("id [LOWEST n]")
        .summarize("The client is there; answers below its lowest pending request go"),
    session("session.close", 2, Handler::OwnTransaction(close))
        .writes()
        .syntax("id")
        .summarize("Ends a session: 1, or 0 if there is none"),
    session("session.info", 2, Handler::Plan(info))
        .syntax("id")
        .summarize("What is known of a session, as JSON"),
    of("session.list", -1, Handler::Plan(list))
        .syntax("[AFTER id] [LIMIT n] [INFO]")
        .summarize("Sessions in the order of their ids; with INFO what is known of each, as JSON"),
];

const fn of(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Sessions, run)
}

/// A command on one session.
const fn session(name: &'static str, arity: i32, run: Handler) -> Spec {
    of(name, arity, run).keys(1, 1, 1)
}

/// A session request. No plan tells which session it belongs to, so its words are checked.
const fn request_of(name: &'static str, arity: i32, run: Handler) -> Spec {
    session(name, arity, run).key_scope(KeyScope::Words)
}

/// Creates a plan for a command, if the command is valid.
fn plan(command: SessionCommand, shape: fn(Answers, Stamp) -> Reply) -> Result<Plan, Reply> {
    command.check()?;
    Ok(Plan::one(command, ReplyFormat::plain(shape)))
}

fn answer(answers: Answers) -> Option<SessionAnswer> {
    match single(answers)? {
        Answer::Session(answer) => Some(*answer),
        _ => None,
    }
}

fn open(words: &[&[u8]]) -> Result<Plan, Reply> {
    let options = parse_all(words, |arguments| {
        let mut options = SessionOptions::new();
        let mut session = None;
        let mut lease = None;
        while arguments.remaining() > 0 {
            if arguments.take_keyword("ID") {
                set_once(&mut session, arguments.name()?)?
            } else if arguments.take_keyword("LEASE") {
                set_once(&mut lease, arguments.count()?)?
            } else if arguments.take_keyword("CAP") {
                options = options.capability(arguments.text()?, arguments.text()?);
            } else {
                return Err(syntax_error());
            }
        }
        options =
            lease.into_iter().fold(options, |options, ms| options.lease(Duration::from_millis(ms)));
        Ok(session.iter().fold(options, |options, session| options.name(session.as_str())))
    })?;
    plan(options.command()?, id_reply)
}

fn id_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(SessionAnswer::Opened { info, .. }) => Reply::text(info.session.as_str()),
        _ => unexpected_answer(),
    }
}

fn send(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let session = arguments.name()?;
        let payload = arguments.word()?.to_vec();
        plan(SessionCommand::Send { session, payload }, number_reply)
    })
}

fn number_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(SessionAnswer::Sent(number)) => Reply::maybe(number.map(Reply::number)),
        Some(SessionAnswer::Kept(_)) => Reply::Status("KEPT"),
        _ => unexpected_answer(),
    }
}

fn pending(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let session = arguments.name()?;
        let mut after = None;
        let mut limit = None;
        while arguments.remaining() > 0 {
            if arguments.take_keyword("AFTER") {
                set_once(&mut after, arguments.count()?)?
            } else if arguments.take_keyword("LIMIT") {
                set_once(&mut limit, arguments.limit()?)?
            } else {
                return Err(syntax_error());
            }
        }
        // Without a limit the reply has all pending requests, because a client that asks for no page
        // expects all of them.
        let after = after.unwrap_or_default();
        let limit = limit.unwrap_or(MAILBOX_LIMIT);
        plan(SessionCommand::Pending { session, after, limit, epoch: 0 }, pending_reply)
    })
}

fn pending_reply(answers: Answers, _: Stamp) -> Reply {
    let row = |(number, payload)| Reply::Array(vec![Reply::number(number), Reply::Bulk(payload)]);
    match answer(answers) {
        Some(SessionAnswer::Pending { requests, .. }) => {
            Reply::Array(requests.into_iter().map(row).collect())
        }
        _ => unexpected_answer(),
    }
}

fn retry(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let sent_before = arguments.count()?;
        let mut limit = DEFAULT_LIMIT;
        if arguments.take_keyword("LIMIT") {
            limit = arguments.limit()?;
        }
        plan(SessionCommand::Retry { sent_before, limit }, retry_reply)
    })
}

fn retry_reply(answers: Answers, _: Stamp) -> Reply {
    let row = |(session, number, payload): (Name, u64, Vec<u8>)| {
        let session = Reply::text(session.as_str());
        Reply::Array(vec![session, Reply::number(number), Reply::Bulk(payload)])
    };
    match answer(answers) {
        Some(SessionAnswer::Retry(requests)) => {
            Reply::Array(requests.into_iter().map(row).collect())
        }
        _ => unexpected_answer(),
    }
}

fn acknowledge(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let session = arguments.name()?;
        let upto = arguments.count()?;
        plan(SessionCommand::Acknowledge { session, upto, epoch: 0 }, count_reply)
    })
}

fn keep_alive(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let session = arguments.name()?;
        let mut lowest_pending = 0;
        if arguments.take_keyword("LOWEST") {
            lowest_pending = arguments.count()?;
        }
        plan(SessionCommand::KeepAlive { session, lowest_pending, epoch: 0 }, ok_reply)
    })
}

fn ok_reply(_: Answers, _: Stamp) -> Reply {
    OK
}

fn close(words: &[&[u8]]) -> Result<Plan, Reply> {
    let session = Arguments::after_first(words).name()?;
    plan(SessionCommand::Close { session, epoch: 0 }, changed)
}

fn info(words: &[&[u8]]) -> Result<Plan, Reply> {
    let session = Arguments::after_first(words).name()?;
    plan(SessionCommand::Info { session }, info_reply)
}

fn info_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(SessionAnswer::Info(info)) => Reply::maybe(info.map(json)),
        _ => unexpected_answer(),
    }
}

fn json(info: SessionInfo) -> Reply {
    Reply::text(Told::from(info).to_json())
}

fn list(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let mut after = None;
        let mut limit = None;
        let mut info = None;
        while arguments.remaining() > 0 {
            if arguments.take_keyword("AFTER") {
                set_once(&mut after, arguments.text()?.to_owned())?
            } else if arguments.take_keyword("LIMIT") {
                set_once(&mut limit, arguments.limit()?)?
            } else if arguments.take_keyword("INFO") {
                set_once(&mut info, ())?
            } else {
                return Err(syntax_error());
            }
        }
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        plan(
            SessionCommand::List { after, limit },
            if info.is_some() { infos_reply } else { names_reply },
        )
    })
}

fn names_reply(answers: Answers, _: Stamp) -> Reply {
    session_page(answers, |info| Reply::text(info.session.as_str()))
}

fn infos_reply(answers: Answers, _: Stamp) -> Reply {
    session_page(answers, json)
}

fn session_page(answers: Answers, row: fn(SessionInfo) -> Reply) -> Reply {
    match answer(answers) {
        Some(SessionAnswer::List(SessionPage { sessions, .. })) => {
            Reply::Array(sessions.into_iter().map(row).collect())
        }
        _ => unexpected_answer(),
    }
}
