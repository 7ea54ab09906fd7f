//! Commands of exactly-once sessions: `SESSION.*`.
//!
//! ```text
//!   SESSION.SEND, ACK, PENDING, INFO, LIST    --> Plan, as for all data
//!   SESSION.OPEN, KEEPALIVE, CLOSE, RETRY     --> Plan that is a transaction of its own
//!   SESSION.DO, EXEC                          --> a session request: see `once.rs`
//! ```

use super::records::how_many;
use super::runs::did;
use crate::resp::arguments::{Arguments, put, syntax_error, understood};
use crate::resp::multi;
use crate::resp::once;
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::{OK, Reply};
use crate::resp::rights::Reach;
use crate::resp::table::{Group, Run, Spec};
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
    of("session.open", -1, Run::Alone(open))
        .writes()
        .syntax("[ID id] [LEASE ms] [CAP name value ...]")
        .about("Opens a session, or finds the one of this id; its id"),
    request_of("session.do", -6, Run::Direct(once::execute))
        .without_data()
        .writes()
        .syntax("id request LOWEST n command [argument ...]")
        .about("Does a command once, however often it is sent: a repeat is answered the same"),
    request_of("session.exec", 5, Run::Control(multi::exec_once))
        .without_data()
        .writes()
        .syntax("id request LOWEST n")
        .about("Does what MULTI kept, all at once, and once however often it is sent"),
    session("session.send", 3, Run::Data(send))
        .writes()
        .syntax("id payload")
        .about("Sends a request to a session's client; its number, or nil without such a session"),
    session("session.pending", -2, Run::Data(pending))
        .syntax("id [AFTER n] [LIMIT n]")
        .about("What a session's client has not acknowledged: number, payload"),
    of("session.retry", -2, Run::Alone(retry))
        .writes()
        .syntax("sent-before-us [LIMIT n]")
        .about("What was sent before this and is not acknowledged; it counts as sent now"),
    session("session.ack", 3, Run::Data(acknowledge))
        .writes()
        .syntax("id n")
        .about("The client has done all requests up to this number; how many that were"),
    session("session.keepalive", -2, Run::Alone(keep_alive))
        .writes()
        .syntax("id [LOWEST n]")
        .about("The client is there; answers below its lowest pending request go"),
    session("session.close", 2, Run::Alone(close))
        .writes()
        .syntax("id")
        .about("Ends a session: 1, or 0 if there is none"),
    session("session.info", 2, Run::Data(info))
        .syntax("id")
        .about("What is known of a session, as JSON"),
    of("session.list", -1, Run::Data(list))
        .syntax("[AFTER id] [LIMIT n] [INFO]")
        .about("Sessions in the order of their ids; with INFO what is known of each, as JSON"),
];

const fn of(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Sessions, run)
}

/// A command on one session.
const fn session(name: &'static str, arity: i32, run: Run) -> Spec {
    of(name, arity, run).keys(1, 1, 1)
}

/// A session request. No plan tells which session it belongs to, so its words are checked.
const fn request_of(name: &'static str, arity: i32, run: Run) -> Spec {
    session(name, arity, run).reaches(Reach::Words)
}

/// Creates a plan for a command, if the command is valid.
fn plan(command: SessionCommand, shape: fn(Answers, Stamp) -> Reply) -> Result<Plan, Reply> {
    command.check()?;
    Ok(Plan::one(command, Shape::ours(shape)))
}

fn answer(answers: Answers) -> Option<SessionAnswer> {
    match only(answers)? {
        Answer::Session(answer) => Some(*answer),
        _ => None,
    }
}

fn open(words: &[&[u8]]) -> Result<Plan, Reply> {
    let options = understood(words, |arguments| {
        let mut options = SessionOptions::new();
        let mut session = None;
        let mut lease = None;
        while arguments.left() > 0 {
            if arguments.take("ID") {
                put(&mut session, arguments.name()?)?
            } else if arguments.take("LEASE") {
                put(&mut lease, arguments.count()?)?
            } else if arguments.take("CAP") {
                options = options.capability(arguments.text()?, arguments.text()?);
            } else {
                return Err(syntax_error());
            }
        }
        options =
            lease.into_iter().fold(options, |options, ms| options.lease(Duration::from_millis(ms)));
        Ok(session.iter().fold(options, |options, session| options.name(session.as_str())))
    })?;
    plan(options.command()?, id)
}

fn id(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(SessionAnswer::Opened { info, .. }) => Reply::text(info.session.as_str()),
        _ => unexpected(),
    }
}

fn send(words: &[&[u8]]) -> Result<Plan, Reply> {
    understood(words, |arguments| {
        let session = arguments.name()?;
        let payload = arguments.word()?.to_vec();
        plan(SessionCommand::Send { session, payload }, number)
    })
}

fn number(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(SessionAnswer::Sent(number)) => Reply::maybe(number.map(Reply::number)),
        Some(SessionAnswer::Kept(_)) => Reply::Status("KEPT"),
        _ => unexpected(),
    }
}

fn pending(words: &[&[u8]]) -> Result<Plan, Reply> {
    understood(words, |arguments| {
        let session = arguments.name()?;
        let mut after = None;
        let mut limit = None;
        while arguments.left() > 0 {
            if arguments.take("AFTER") {
                put(&mut after, arguments.count()?)?
            } else if arguments.take("LIMIT") {
                put(&mut limit, arguments.limit()?)?
            } else {
                return Err(syntax_error());
            }
        }
        // Without a limit the reply has all pending requests, because a client that asks for no page
        // expects all of them.
        let after = after.unwrap_or_default();
        let limit = limit.unwrap_or(MAILBOX_LIMIT);
        plan(SessionCommand::Pending { session, after, limit, epoch: 0 }, requests)
    })
}

fn requests(answers: Answers, _: Stamp) -> Reply {
    let row = |(number, payload)| Reply::Array(vec![Reply::number(number), Reply::Bulk(payload)]);
    match answer(answers) {
        Some(SessionAnswer::Pending { requests, .. }) => {
            Reply::Array(requests.into_iter().map(row).collect())
        }
        _ => unexpected(),
    }
}

fn retry(words: &[&[u8]]) -> Result<Plan, Reply> {
    understood(words, |arguments| {
        let sent_before = arguments.count()?;
        let mut limit = DEFAULT_LIMIT;
        if arguments.take("LIMIT") {
            limit = arguments.limit()?;
        }
        plan(SessionCommand::Retry { sent_before, limit }, retried)
    })
}

fn retried(answers: Answers, _: Stamp) -> Reply {
    let row = |(session, number, payload): (Name, u64, Vec<u8>)| {
        let session = Reply::text(session.as_str());
        Reply::Array(vec![session, Reply::number(number), Reply::Bulk(payload)])
    };
    match answer(answers) {
        Some(SessionAnswer::Retry(requests)) => {
            Reply::Array(requests.into_iter().map(row).collect())
        }
        _ => unexpected(),
    }
}

fn acknowledge(words: &[&[u8]]) -> Result<Plan, Reply> {
    understood(words, |arguments| {
        let session = arguments.name()?;
        let upto = arguments.count()?;
        plan(SessionCommand::Acknowledge { session, upto, epoch: 0 }, how_many)
    })
}

fn keep_alive(words: &[&[u8]]) -> Result<Plan, Reply> {
    understood(words, |arguments| {
        let session = arguments.name()?;
        let mut lowest_pending = 0;
        if arguments.take("LOWEST") {
            lowest_pending = arguments.count()?;
        }
        plan(SessionCommand::KeepAlive { session, lowest_pending, epoch: 0 }, done)
    })
}

fn done(_: Answers, _: Stamp) -> Reply {
    OK
}

fn close(words: &[&[u8]]) -> Result<Plan, Reply> {
    let session = Arguments::behind(words).name()?;
    plan(SessionCommand::Close { session, epoch: 0 }, did)
}

fn info(words: &[&[u8]]) -> Result<Plan, Reply> {
    let session = Arguments::behind(words).name()?;
    plan(SessionCommand::Info { session }, known)
}

fn known(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(SessionAnswer::Info(info)) => Reply::maybe(info.map(json)),
        _ => unexpected(),
    }
}

fn json(info: SessionInfo) -> Reply {
    Reply::text(Told::from(info).to_json())
}

fn list(words: &[&[u8]]) -> Result<Plan, Reply> {
    understood(words, |arguments| {
        let mut after = None;
        let mut limit = None;
        let mut info = None;
        while arguments.left() > 0 {
            if arguments.take("AFTER") {
                put(&mut after, arguments.text()?.to_owned())?
            } else if arguments.take("LIMIT") {
                put(&mut limit, arguments.limit()?)?
            } else if arguments.take("INFO") {
                put(&mut info, ())?
            } else {
                return Err(syntax_error());
            }
        }
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        plan(SessionCommand::List { after, limit }, if info.is_some() { infos } else { names })
    })
}

fn names(answers: Answers, _: Stamp) -> Reply {
    page(answers, |info| Reply::text(info.session.as_str()))
}

fn infos(answers: Answers, _: Stamp) -> Reply {
    page(answers, json)
}

fn page(answers: Answers, row: fn(SessionInfo) -> Reply) -> Reply {
    match answer(answers) {
        Some(SessionAnswer::List(SessionPage { sessions, .. })) => {
            Reply::Array(sessions.into_iter().map(row).collect())
        }
        _ => unexpected(),
    }
}
