//! Commands on keyed state: `STATE.*`.
//!
//! ```text
//!   STATE.PUT, GET, SCAN, SNAPSHOT, … --> Plan, as for all data
//!   STATE.SEAL                        --> as many transactions as needed; one inside MULTI, TXN and SESSION.DO
//! ```

use super::records::count_reply;
use super::runs::changed;
use crate::resp::arguments::{Arguments, parse_all, syntax_error};
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use mainstay::limits::{PAGE_LIMIT, TRANSACTION_LIMIT_BYTES};
use mainstay::{
    Answer, At, Code, Command, Database, EntryBlock, Error, Item, Kept, Name, SnapshotHead,
    SnapshotReader, SnapshotWriter, SpaceInfo, SpaceOptions, Stamp, State, StateAnswer,
    StateCommand, StateKey, StatePage, StateWrite, Transaction, Version, WaitingEntry,
};

/// The default limit for keys, items or spaces.
const DEFAULT_LIMIT: usize = 1000;
/// The most entries sealed in one transaction, if several transactions are allowed.
const SEAL_PIECE: usize = 10_000;
/// The largest snapshot in a reply. A snapshot that a command could restore can also be returned in a
/// reply.
const SNAPSHOT_LIMIT_BYTES: usize = 16 << 20;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    space("state.put", 6, Handler::Plan(put))
        .writes()
        .syntax("space key value VERSION version")
        .summarize(
            "Writes a key's state if the version is newer than the key's: 1, or 0 if it is not",
        ),
    space("state.del", 5, Handler::Plan(delete))
        .writes()
        .syntax("space key VERSION version")
        .summarize(
            "Deletes a key's state if the version is newer than the key's: 1, or 0 if it is not",
        ),
    space("state.get", -3, Handler::Plan(get))
        .syntax("space key [REV revision | AT stamp_us]")
        .summarize("A key's state and its version"),
    space("state.list", -2, Handler::Plan(list))
        .syntax("space [PREFIX p] [AFTER key] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Keys in their order"),
    space("state.scan", -2, Handler::Plan(scan))
        .syntax("space [PREFIX p] [AFTER key] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Keys in their order, each with its state and version"),
    space("state.append", 5, Handler::Plan(append))
        .writes()
        .syntax("space key id item")
        .summarize("Adds an item to a key's log: 1, or 0 if the log has one of this id"),
    space("state.items", -3, Handler::Plan(items))
        .syntax("space key [AFTER id] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Items of a key's log in the order of their ids"),
    space("state.advance", 4, Handler::Plan(advance))
        .writes()
        .syntax("space source position")
        .summarize("Says how far a source was read: 1, or 0 if that is not further"),
    space("state.positions", -2, Handler::Plan(positions))
        .syntax("space [REV revision | AT stamp_us]")
        .summarize("How far sources were read"),
    space("state.waiting", -2, Handler::Plan(waiting))
        .syntax("space [BELOW version] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Writes that wait until their versions are sealed: key, version, state"),
    space("state.create", -2, Handler::Plan(create))
        .writes()
        .syntax("space [VERSIONS kind] [ORDERED] [GROUPS n]")
        .summarize("Declares a space, with versions of kind u64 or time: 1, or 0 if it is there"),
    space("state.seal", 3, Handler::PlanInPieces(seal, seal_pieces))
        .writes()
        .syntax("space frontier")
        .summarize("Closes all versions below the frontier; how many writes had waited for that"),
    space("state.info", -2, Handler::Plan(info))
        .syntax("space [REV revision | AT stamp_us]")
        .summarize("How a space is declared and its frontier, as JSON"),
    Spec::new("state.spaces", -1, Group::Keyed, Handler::Plan(spaces))
        .syntax("[PREFIX p] [AFTER space] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Spaces in the order of their names"),
    space("state.snapshot", -2, Handler::Plan(snapshot))
        .syntax("space [REV revision | AT stamp_us]")
        .summarize("All that a space says, as bytes"),
    space("state.restore", 3, Handler::Plan(restore))
        .writes()
        .syntax("space snapshot")
        .summarize("Replaces a space by what a snapshot says; how many entries that has"),
    space("state.drop", 2, Handler::Plan(drop_space))
        .writes()
        .syntax("space")
        .summarize("Removes a space and everything in it: 1, or 0 if there is none"),
];

const fn space(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Keyed, run).keys(1, 1, 1)
}

fn write(space: Name, write: StateWrite) -> Result<Plan, Reply> {
    write.check()?;
    let writes = vec![write];
    Ok(Plan::one(StateCommand::Write { space, writes }, ReplyFormat::plain(write_reply)))
}

fn version(arguments: &mut Arguments<'_>) -> Result<Version, Reply> {
    Ok(arguments.text()?.parse()?)
}

/// Consumes `VERSION version`.
fn version_option(arguments: &mut Arguments<'_>) -> Result<Version, Reply> {
    if arguments.take_keyword("VERSION") { version(arguments) } else { Err(syntax_error()) }
}

fn put(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let key = arguments.word()?;
        let value = arguments.word()?;
        write(space, StateWrite::put(key, value, version_option(arguments)?))
    })
}

fn delete(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let key = arguments.word()?;
        write(space, StateWrite::delete(key, version_option(arguments)?))
    })
}

fn append(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let key = arguments.word()?;
        write(space, StateWrite::append(key, arguments.word()?, arguments.word()?))
    })
}

fn advance(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let source = arguments.text()?;
        write(space, StateWrite::advance(source, arguments.count()?))
    })
}

/// Returns the answer of a command on keyed state.
fn answer(answers: Answers) -> Option<StateAnswer> {
    state_answer(single(answers)?)
}

fn state_answer(answer: Answer) -> Option<StateAnswer> {
    match answer {
        Answer::State(answer) => Some(*answer),
        _ => None,
    }
}

fn write_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(StateAnswer::Wrote(all)) => {
            Reply::Int(all.iter().all(|wrote| wrote.took_effect()).into())
        }
        _ => unexpected_answer(),
    }
}

fn get(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let key = StateKey(arguments.word()?.to_vec());
        let command = StateCommand::Look { space, keys: vec![key] };
        Ok(Plan::one(command, ReplyFormat::plain(state_reply)).at(arguments.point_in_time()?))
    })
}

fn state_reply(answers: Answers, _: Stamp) -> Reply {
    let shown = |State { value, version }| {
        Reply::Array(vec![Reply::Bulk(value), Reply::text(version.to_string())])
    };
    match answer(answers) {
        Some(StateAnswer::Kept(mut found)) => {
            Reply::maybe(found.pop().flatten().and_then(Kept::into_state).map(shown))
        }
        _ => unexpected_answer(),
    }
}

/// The page that a request asks for.
struct PageOptions {
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
    below: Option<Version>,
    limit: usize,
    at: Option<At>,
}

impl PageOptions {
    /// Reads the options behind a space. `words` are the options that the command allows besides `LIMIT`,
    /// `REV` and `AT`.
    fn read(arguments: &mut Arguments<'_>, words: &[&str]) -> Result<PageOptions, Reply> {
        let prefix = Vec::new();
        let after = None;
        let below = None;
        let mut options = PageOptions { prefix, after, below, limit: DEFAULT_LIMIT, at: None };
        while arguments.remaining() > 0 {
            match words.iter().find(|word| arguments.take_keyword(word)).copied() {
                Some("PREFIX") => options.prefix = arguments.word()?.to_vec(),
                Some("AFTER") => options.after = Some(arguments.word()?.to_vec()),
                Some("BELOW") => options.below = Some(version(arguments)?),
                _ if arguments.take_keyword("LIMIT") => options.limit = arguments.limit()?,
                _ => options.at = Some(arguments.point_in_time()?.ok_or_else(syntax_error)?),
            }
        }
        Ok(options)
    }
}

const KEYS: &[&str] = &["PREFIX", "AFTER"];

fn list(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let PageOptions { prefix, after, limit, at, .. } = PageOptions::read(arguments, KEYS)?;
        let command = StateCommand::List { space, prefix, after, limit };
        Ok(Plan::one(command, ReplyFormat::plain(keys_reply)).at(at))
    })
}

fn keys_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(StateAnswer::Keys { keys, .. }) => {
            Reply::Array(keys.into_iter().map(|key| Reply::Bulk(key.0)).collect())
        }
        _ => unexpected_answer(),
    }
}

fn scan(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let PageOptions { prefix, after, limit, at, .. } = PageOptions::read(arguments, KEYS)?;
        let command = StateCommand::Scan { space, prefix, after, limit };
        Ok(Plan::one(command, ReplyFormat::plain(states_reply)).at(at))
    })
}

fn states_reply(answers: Answers, _: Stamp) -> Reply {
    let row = |(key, state): (Vec<u8>, State)| {
        let version = Reply::text(state.version.to_string());
        Reply::Array(vec![Reply::Bulk(key), Reply::Bulk(state.value), version])
    };
    match answer(answers) {
        Some(StateAnswer::States(StatePage { states, next })) => {
            let rows = Reply::Array(states.into_iter().map(row).collect());
            Reply::Array(vec![Reply::maybe(next.map(Reply::Bulk)), rows])
        }
        _ => unexpected_answer(),
    }
}

fn items(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let key = arguments.word()?.to_vec();
        let PageOptions { after, limit, at, .. } = PageOptions::read(arguments, &["AFTER"])?;
        let command = StateCommand::Items { space, key, after, limit };
        Ok(Plan::one(command, ReplyFormat::plain(items_reply)).at(at))
    })
}

fn items_reply(answers: Answers, _: Stamp) -> Reply {
    let row = |Item { id, item }| Reply::Array(vec![Reply::Bulk(id), Reply::Bulk(item)]);
    match answer(answers) {
        Some(StateAnswer::Items(items)) => Reply::Array(items.into_iter().map(row).collect()),
        _ => unexpected_answer(),
    }
}

fn positions(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let command = StateCommand::Positions { space: arguments.name()? };
        Ok(Plan::one(command, ReplyFormat::plain(positions_reply)).at(arguments.point_in_time()?))
    })
}

fn positions_reply(answers: Answers, _: Stamp) -> Reply {
    // The protocol has no integers above `i64::MAX`, so a larger position is sent as text and stays exact.
    let shown = |position: u64| match i64::try_from(position) {
        Ok(position) => Reply::Int(position),
        Err(_) => Reply::text(position.to_string()),
    };
    let row = |(source, position): (String, u64)| {
        Reply::Array(vec![Reply::text(source), shown(position)])
    };
    match answer(answers) {
        Some(StateAnswer::Positions(all)) => Reply::Array(all.into_iter().map(row).collect()),
        _ => unexpected_answer(),
    }
}

fn waiting(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let PageOptions { below, limit, at, .. } = PageOptions::read(arguments, &["BELOW"])?;
        let command = StateCommand::Waiting { space, below, limit };
        Ok(Plan::one(command, ReplyFormat::plain(waiting_reply)).at(at))
    })
}

fn waiting_reply(answers: Answers, _: Stamp) -> Reply {
    let row = |WaitingEntry { key, version, value }| {
        let version = Reply::text(version.to_string());
        Reply::Array(vec![Reply::Bulk(key), version, Reply::maybe(value.map(Reply::Bulk))])
    };
    match answer(answers) {
        Some(StateAnswer::Waiting(all)) => Reply::Array(all.into_iter().map(row).collect()),
        _ => unexpected_answer(),
    }
}

fn create(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let mut options = SpaceOptions::default();
        while arguments.remaining() > 0 {
            if arguments.take_keyword("VERSIONS") {
                options.versions = Some(arguments.text()?.parse()?);
            } else if arguments.take_keyword("ORDERED") {
                options.ordered = true
            } else if arguments.take_keyword("GROUPS") {
                options.groups = u32::try_from(arguments.count()?).unwrap_or(u32::MAX);
            } else if arguments.take_keyword("MERGED") {
                return Err(merged_not_supported());
            } else {
                return Err(syntax_error());
            }
        }
        options.check()?;
        Ok(Plan::one(StateCommand::Declare { space, options }, ReplyFormat::plain(changed)))
    })
}

/// The error for declaring a merged space: its writes go through a function of a program, which a command
/// cannot name.
fn merged_not_supported() -> Reply {
    let message = "the function that merges is part of a program, which embeds Mainstay or its client: none can be named \
                   here, so declare the space in that program, with SpaceOptions::merged, and put to it there";
    Error::new(Code::Unsupported, message).into()
}

fn seal(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let frontier = version(arguments)?;
        let command = StateCommand::Seal { space, frontier, limit: PAGE_LIMIT };
        Ok(Plan::one(command, ReplyFormat::plain(seal_reply)))
    })
}

/// The reply to sealing in one transaction.
fn seal_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(StateAnswer::Sealed { settled, done: true }) => Reply::number(settled),
        Some(StateAnswer::Sealed { settled, done: false }) => Reply::error(format!(
            "TOOLARGE {settled} writes that waited are sealed, and more wait than one transaction can seal: \
             say STATE.SEAL again, outside of MULTI, TXN and SESSION.DO"
        )),
        _ => unexpected_answer(),
    }
}

/// Seals in as many transactions as needed. Each of them raises the frontier, so a client whose connection
/// breaks can simply seal again.
async fn seal_all(db: Database, empty: Transaction, space: Name, frontier: Version) -> Reply {
    let mut total = 0;
    loop {
        let command = StateCommand::Seal { space: space.clone(), frontier, limit: SEAL_PIECE };
        let receipt = match db.submit(empty.clone().step(command)).await {
            Ok(receipt) => receipt,
            Err(error) => return error.into(),
        };
        match answer(receipt.answers) {
            Some(StateAnswer::Sealed { settled, done: true }) => {
                return Reply::number(total + settled);
            }
            Some(StateAnswer::Sealed { settled, done: false }) => total += settled,
            _ => return unexpected_answer(),
        }
    }
}

fn seal_pieces(db: Database, empty: Transaction, plan: Plan) -> crate::resp::tasks::ReplyFuture {
    match plan.commands.into_iter().next() {
        Some(Command::State(StateCommand::Seal { space, frontier, .. })) => {
            Box::pin(seal_all(db, empty, space, frontier))
        }
        _ => Box::pin(async { unexpected_answer() }),
    }
}

fn info(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let command = StateCommand::Info { space: arguments.name()? };
        Ok(Plan::one(command, ReplyFormat::plain(info_reply)).at(arguments.point_in_time()?))
    })
}

fn info_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(StateAnswer::Info(info)) => {
            Reply::maybe(info.map(|info| Reply::text(info.to_value().to_json())))
        }
        _ => unexpected_answer(),
    }
}

fn spaces(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let PageOptions { prefix, after, limit, at, .. } = PageOptions::read(arguments, KEYS)?;
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .map_err(|_| Reply::error("INVALID a name is UTF-8, and this one is not"))
        };
        let prefix = text(prefix)?;
        let after = after.map(text).transpose()?;
        let command = StateCommand::Spaces { prefix, after, limit };
        Ok(Plan::one(command, ReplyFormat::plain(names_reply)).at(at))
    })
}

fn names_reply(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Names(page)) => Reply::texts(page.names),
        _ => unexpected_answer(),
    }
}

fn snapshot(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let dump = StateCommand::Dump {
            space: space.clone(),
            after: None,
            limit_bytes: SNAPSHOT_LIMIT_BYTES,
        };
        let both = [StateCommand::Info { space }, dump];
        Ok(Plan::all(both, ReplyFormat::plain(snapshot_reply)).at(arguments.point_in_time()?))
    })
}

fn snapshot_reply(answers: Answers, _: Stamp) -> Reply {
    let mut answers = answers.into_iter().map(state_answer);
    match (answers.next().flatten(), answers.next().flatten()) {
        (Some(StateAnswer::Info(info)), Some(StateAnswer::Entries { block, next: None }))
            // The last entry may exceed the limit, and a single entry is always allowed.
            if block.as_bytes().len() <= SNAPSHOT_LIMIT_BYTES || block.iter().nth(1).is_none() =>
        {
            encode_snapshot(info, &block).map_or_else(Reply::from, Reply::Bulk)
        }
        (Some(_), Some(StateAnswer::Entries { .. })) => Reply::error(format!(
            "TOOLARGE the space has more than {} MiB, too much for a reply: take its snapshot over HTTP, or with \
             `mainstay state snapshot`",
            SNAPSHOT_LIMIT_BYTES >> 20
        )),
        _ => unexpected_answer(),
    }
}

fn encode_snapshot(info: Option<SpaceInfo>, block: &EntryBlock) -> mainstay::Result<Vec<u8>> {
    let head = SnapshotHead::all(info.unwrap_or_default());
    let mut writer = SnapshotWriter::new(Vec::new(), &head)?;
    for entry in block {
        let (place, payload) = entry?;
        writer.push(place, payload)?;
    }
    Ok(writer.finish()?.1)
}

fn restore(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        let space = arguments.name()?;
        let bytes = arguments.word()?;
        if bytes.len() > TRANSACTION_LIMIT_BYTES {
            return Err(Reply::error(
                "TOOLARGE the snapshot has more than 64 MiB, too much for a command: restore it over HTTP, or with \
                 `mainstay state restore`",
            ));
        }
        // The whole snapshot is verified before anything is written.
        let (info, block) = decode_snapshot(bytes)?;
        let command = StateCommand::Restore { space, info, block, begun: None, ends: true };
        Ok(Plan::one(command, ReplyFormat::plain(count_reply)))
    })
}

fn decode_snapshot(bytes: &[u8]) -> mainstay::Result<(SpaceInfo, EntryBlock)> {
    let mut reader = SnapshotReader::new(bytes)?;
    let head = *reader.head();
    if head.some_keys || head.changes {
        let message = "the snapshot has only some keys of a space, or what has changed of it: a space is replaced by a \
                       snapshot of all";
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let mut all = EntryBlock::default();
    while let Some(block) = reader.next_block()? {
        all.append(&block);
    }
    Ok((head.space, all))
}

fn drop_space(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_all(words, |arguments| {
        Ok(Plan::one(StateCommand::Drop { space: arguments.name()? }, ReplyFormat::plain(changed)))
    })
}
