use super::super::prefixes::Prefixes;
use super::super::right::Rights;
use super::*;
use mainstay::{
    Condition, EntryBlock, Field, FieldValue, MergeStrategy, Number, Only, RecordPick, RecordWrite,
    SessionRequest, SpaceInfo, SpaceOptions, StatePlace, StateWrite, Step, SystemCommand, Ttl,
    Value,
};

fn user(allow: &[&str], prefixes: &[&str]) -> User {
    let texts = |all: &[&str]| -> Vec<String> { all.iter().map(ToString::to_string).collect() };
    let rights = Rights::read(&texts(allow)).unwrap();
    User::new("u".into(), rights, Prefixes::new(texts(prefixes)))
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Returns every command on one cell, with whether it reads and whether it writes.
fn on_cell(key: &str) -> Vec<(Command, bool, bool)> {
    let name = || name(key);
    let value = || Value::from("v");
    let cells = [
        (CellCommand::Get { name: name() }, true, false),
        (CellCommand::Init { name: name(), value: value() }, true, true),
        (CellCommand::set(name(), "v"), false, true),
        (CellCommand::Cas { name: name(), expected: None, value: value() }, true, true),
        (CellCommand::Delete { name: name(), counter: None }, false, true),
        (CellCommand::Delete { name: name(), counter: Some(1) }, true, true),
        (CellCommand::Incr { name: name(), by: Number::Int(1) }, true, true),
        (CellCommand::Expire { name: name(), ttl: Ttl::Clear }, false, true),
        (
            CellCommand::Restore { name: name(), value: None, counter: 1, expires: None },
            false,
            true,
        ),
        (CellCommand::List { prefix: key.into(), after: None, limit: 1 }, true, false),
    ];
    let only = Only::Always;
    let strings = [
        (StringCommand::Set { name: name(), value: value(), only, ttl: Ttl::Clear }, true, true),
        (StringCommand::SetAll { pairs: vec![(name(), value())], only_absent: true }, true, true),
        (StringCommand::SetAll { pairs: vec![(name(), value())], only_absent: false }, false, true),
        (StringCommand::Take { name: name() }, true, true),
        (StringCommand::Touch { name: name(), ttl: Ttl::Clear }, true, true),
        (StringCommand::Append { name: name(), text: Vec::new() }, true, true),
        (StringCommand::Add { name: name(), by: 1 }, true, true),
        (StringCommand::AddFloat { name: name(), by: "1".into() }, true, true),
        (
            StringCommand::Expire { name: name(), ttl: Ttl::Clear, only: Default::default() },
            false,
            true,
        ),
        (StringCommand::Persist { name: name() }, true, true),
        (StringCommand::Get { name: name() }, true, false),
        (StringCommand::Put { name: name(), value: value(), ttl: Ttl::Clear }, false, true),
        (
            StringCommand::Swap {
                name: name(),
                value: value(),
                only: Only::Always,
                ttl: Ttl::Clear,
            },
            true,
            true,
        ),
    ];
    let cells = cells.into_iter().map(|(command, r, w)| (Command::from(command), r, w));
    cells.chain(strings.into_iter().map(|(command, r, w)| (command.into(), r, w))).collect()
}

/// Returns every command on one record, with whether it reads and whether it writes.
fn on_record(key: &str) -> Vec<(Command, bool, bool)> {
    let name = || name(key);
    let field = || Field::new("f").unwrap();
    let write = || RecordWrite::to(key).unwrap();
    let is = Condition::Field { field: field(), is: None };
    let sum = FieldValue::Sum { by: 1 };
    let written = |write: RecordWrite| RecordCommand::Write(Box::new(write));
    let only = Default::default();
    let prefix = || key.to_owned();
    let filters = Vec::new;
    let records = [
        (RecordCommand::Get { key: name(), fields: None }, true, false),
        (
            RecordCommand::Scan { prefix: prefix(), filters: filters(), after: None, limit: 1 },
            true,
            false,
        ),
        (RecordCommand::Count { prefix: prefix(), filters: filters() }, true, false),
        (RecordCommand::Pick(Box::new(RecordPick::under(&prefix(), filters()))), true, true),
        (written(write().set("f", "v").unwrap()), false, true),
        (written(write().set("f", "v").unwrap().when_counter(None)), true, true),
        (written(write().set("f", sum).unwrap()), true, true),
        (written(write().clear("f").unwrap()), true, true),
        (RecordCommand::Delete { key: name(), when: Vec::new() }, false, true),
        (RecordCommand::Delete { key: name(), when: vec![is] }, true, true),
        (RecordCommand::Expire { key: name(), ttl: Ttl::Clear, only }, false, true),
        (
            RecordCommand::Restore { key: name(), fields: None, counter: 1, expires: None },
            false,
            true,
        ),
    ];
    let pairs = || vec![(field(), Vec::new())];
    let hashes = [
        (HashCommand::Get { key: name(), fields: None }, true, false),
        (HashCommand::Count { key: name() }, true, false),
        (HashCommand::Set { key: name(), pairs: pairs(), only_absent: false }, false, true),
        (HashCommand::Set { key: name(), pairs: pairs(), only_absent: true }, true, true),
        (HashCommand::Delete { key: name(), fields: vec![field()] }, false, true),
        (HashCommand::Add { key: name(), field: field(), by: 1 }, true, true),
        (HashCommand::AddFloat { key: name(), field: field(), by: "1".into() }, true, true),
    ];
    let records = records.into_iter().map(|(command, r, w)| (Command::from(command), r, w));
    records.chain(hashes.into_iter().map(|(command, r, w)| (command.into(), r, w))).collect()
}

/// Returns every command on one space, with whether it reads and whether it writes.
fn on_space(key: &str) -> Vec<(Command, bool, bool)> {
    let space = || name(key);
    let info = SpaceInfo::default();
    let block = EntryBlock::default;
    let prefix = Vec::new;
    let limit = 1;
    let none = || None::<Vec<u8>>;
    let all = [
        (StateCommand::Declare { space: space(), options: SpaceOptions::default() }, true, true),
        (
            StateCommand::Write { space: space(), writes: vec![StateWrite::put("k", "v", 1)] },
            true,
            true,
        ),
        (StateCommand::Seal { space: space(), frontier: 1.into(), limit }, true, true),
        (StateCommand::Take { space: space(), info, block: block() }, true, true),
        (StateCommand::Drop { space: space() }, false, true),
        (
            StateCommand::Restore { space: space(), info, block: block(), begun: None, ends: true },
            false,
            true,
        ),
        (StateCommand::Abandon { space: space(), begun: 1 }, false, true),
        (StateCommand::Look { space: space(), keys: Vec::new() }, true, false),
        (
            StateCommand::Scan { space: space(), prefix: prefix(), after: none(), limit },
            true,
            false,
        ),
        (
            StateCommand::List { space: space(), prefix: prefix(), after: none(), limit },
            true,
            false,
        ),
        (StateCommand::Items { space: space(), key: prefix(), after: none(), limit }, true, false),
        (StateCommand::Waiting { space: space(), below: None, limit }, true, false),
        (StateCommand::Positions { space: space() }, true, false),
        (StateCommand::Info { space: space() }, true, false),
        (StateCommand::Dump { space: space(), after: none(), limit_bytes: 1 }, true, false),
        (StateCommand::Spaces { prefix: key.into(), after: None, limit }, true, false),
    ];
    all.into_iter().map(|(command, r, w)| (Command::from(command), r, w)).collect()
}

/// Returns every command on one session, with whether it reads and whether it writes.
fn on_session(key: &str) -> Vec<(Command, bool, bool)> {
    let session = || name(key);
    let capabilities = Vec::new();
    let all = [
        (
            SessionCommand::Open { session: session(), lease_ms: None, capabilities, hold: None },
            true,
            true,
        ),
        (
            SessionCommand::KeepAlive { session: session(), lowest_pending: 1, epoch: 0 },
            false,
            true,
        ),
        (SessionCommand::Close { session: session(), epoch: 0 }, false, true),
        (SessionCommand::Send { session: session(), payload: Vec::new() }, false, true),
        (SessionCommand::Acknowledge { session: session(), upto: 1, epoch: 0 }, false, true),
        (SessionCommand::Pending { session: session(), after: 0, limit: 1, epoch: 0 }, true, false),
        (SessionCommand::Info { session: session() }, true, false),
    ];
    all.into_iter().map(|(command, r, w)| (Command::from(command), r, w)).collect()
}

/// Returns every command on all sessions, with whether it writes.
fn on_sessions() -> [(Command, bool); 3] {
    [
        (SessionCommand::Retry { sent_before: 1, limit: 1 }.into(), true),
        (SessionCommand::HasPending { sent_before: 1 }.into(), false),
        (SessionCommand::List { after: None, limit: 1 }.into(), false),
    ]
}

fn branch_commands() -> Vec<Command> {
    let a = || name("app:a");
    let commands = [
        BranchCommand::Fork { name: a(), from: a(), at: None },
        BranchCommand::Create { name: a() },
        BranchCommand::Import { name: a() },
        BranchCommand::Finish { name: a(), tags: Vec::new() },
        BranchCommand::Delete { name: a() },
        BranchCommand::Rename { name: a(), to: a() },
        BranchCommand::Merge { from: a(), into: a(), strategy: MergeStrategy::Strict },
        BranchCommand::Tag { name: a(), branch: a(), at: None },
        BranchCommand::Untag { name: a() },
    ];
    commands.into_iter().map(Command::from).collect()
}

/// A function that returns every command on a key.
type Commands = fn(&str) -> Vec<(Command, bool, bool)>;

/// Each kind of state: its permission, another permission, and its commands.
const KINDS: [(&str, &str, Commands); 4] = [
    ("cells", "records", on_cell),
    ("records", "cells", on_record),
    ("keyed", "cells", on_space),
    ("sessions", "cells", on_session),
];

#[test]
fn each_command_needs_its_rights_and_its_keys() {
    for (area, other, commands) in KINDS {
        let with = |right: &str| user(&[right], &["app:"]);
        let reader = with(&format!("{area}:read"));
        let writer = with(&format!("{area}:write"));
        let both = with(area);
        let stranger = with(other);
        for (command, reads, writes) in commands("app:a") {
            assert_eq!(reader.allow_command(&command).is_ok(), !writes, "{command:?}");
            assert_eq!(writer.allow_command(&command).is_ok(), !reads, "{command:?}");
            assert!(both.allow_command(&command).is_ok(), "{command:?}");
            assert!(stranger.allow_command(&command).is_err(), "{command:?}");
        }
        for outside in ["app", "ap", "b:app:", "App:a"] {
            for (command, ..) in commands(outside) {
                assert!(both.allow_command(&command).is_err(), "{command:?}");
            }
        }
    }
}

#[test]
fn branches_indexes_and_the_sweep_are_about_all_keys() {
    let sweep = Command::from(SystemCommand::Sweep { limit: 1 });
    for command in branch_commands() {
        assert!(user(&["branches"], &[""]).allow_command(&command).is_ok(), "{command:?}");
        assert!(user(&["branches:read", "cells"], &[""]).allow_command(&command).is_err());
        assert!(user(&["all"], &["app:"]).allow_command(&command).is_err(), "{command:?}");
        assert!(administrative(&command).is_some(), "{command:?}");
    }
    let add = IndexCommand::Add { prefix: "app:".into(), fields: Vec::new() };
    for command in [sweep, add.into(), IndexCommand::Drop { id: 1 }.into()] {
        let allowed = |allow: &[&str], prefix| user(allow, &[prefix]).allow_command(&command);
        assert!(allowed(&["cells", "records", "branches", "admin:read"], "").is_err());
        assert!(allowed(&["all"], "app:").is_err(), "{command:?}");
        assert!(allowed(&["admin"], "").is_ok(), "{command:?}");
    }
    let dropped = IndexCommand::Drop { id: 7 }.into();
    assert_eq!(administrative(&dropped), Some(("rec.index", vec!["DROP".into(), "7".into()])));
}

/// Returns every guard on a key of a kind.
fn guards(key: &str, contract: Contract) -> Vec<Guard> {
    let own = match contract {
        Contract::Records => [
            Guard::Record { key: name(key), is: None },
            Guard::Field { key: name(key), field: Field::new("f").unwrap(), is: None },
        ],
        Contract::Keyed => [
            Guard::StateVersion { space: name(key), key: b"k".to_vec(), is: None },
            Guard::StateUnchanged { space: name(key), place: StatePlace::Space, since: 1 },
        ],
        _ => [
            Guard::Counter { name: name(key), is: None },
            Guard::Value { name: name(key), is: None },
        ],
    };
    let range = Guard::RangeUnchanged {
        contract,
        prefix: key.into(),
        after: None,
        upto: None,
        since: 1,
        expires: None,
    };
    let unchanged = Guard::Unchanged { contract, name: name(key), since: 1, expires: None };
    own.into_iter().chain([unchanged, range]).collect()
}

#[test]
fn guards_and_the_other_way_of_a_transaction_are_looked_at_too() {
    let both = user(&["cells"], &["app:"]);
    let empty = Transaction::new;
    for (area, other, contract) in [
        ("cells", "records", Contract::Cells),
        ("records", "cells", Contract::Records),
        ("keyed", "cells", Contract::Keyed),
    ] {
        let holder = user(&[area], &["app:"]);
        let writer = user(&[&format!("{area}:write"), other], &["app:"]);
        for guard in guards("app:a", contract) {
            assert!(holder.allow(&empty().guard(guard.clone())).is_ok(), "{guard:?}");
            assert!(writer.allow(&empty().guard(guard)).is_err(), "a guard reads");
        }
        for guard in guards("other", contract) {
            assert!(holder.allow(&empty().guard(guard.clone())).is_err(), "{guard:?}");
        }
    }
    let get = |key: &str| CellCommand::Get { name: name(key) };
    assert!(both.allow(&empty().step(get("app:a")).step(get("b"))).is_err());
    assert!(both.allow(&empty().otherwise(vec![Step::from(get("b"))])).is_err());
    let pairs = vec![(name("app:a"), Value::from(1)), (name("b"), Value::from(1))];
    let command = StringCommand::SetAll { pairs, only_absent: false };
    assert!(both.allow(&empty().step(command)).is_err(), "every pair is looked at");
}

#[test]
fn what_tells_of_all_sessions_needs_all_keys() {
    for (command, writes) in on_sessions() {
        let allowed = |right: &str, prefix| user(&[right], &[prefix]).allow_command(&command);
        assert_eq!(allowed("sessions:read", "").is_ok(), !writes, "{command:?}");
        assert!(allowed("sessions", "").is_ok(), "{command:?}");
        assert!(allowed("sessions:write", "").is_err(), "{command:?}");
        assert!(allowed("sessions", "app:").is_err(), "{command:?}");
        assert!(allowed("admin", "").is_err(), "{command:?}");
    }
}

#[test]
fn a_request_needs_the_right_to_write_its_session() {
    let read = || Transaction::new().step(CellCommand::Get { name: name("app:a") });
    let request = |session| read().in_session(SessionRequest::new(name(session), 1, 1));
    let allowed = |allow: &[&str], session| user(allow, &["app:"]).allow(&request(session)).is_ok();
    assert!(allowed(&["cells:read", "sessions:write"], "app:s"));
    assert!(!allowed(&["cells:read", "sessions:write"], "s"), "another's answers");
    assert!(!allowed(&["cells:read", "sessions:read"], "app:s"));
    assert!(!allowed(&["cells"], "app:s"));
    assert!(!allowed(&["sessions"], "app:s"), "what it does is looked at, too");
    assert!(user(&["cells:read"], &["app:"]).allow(&read()).is_ok(), "as before");
}

#[test]
fn messages_are_watched_by_whoever_may_see_them_all() {
    let contract = Contract::Outbox;
    let guard = Guard::Unchanged { contract, name: name("17"), since: 1, expires: None };
    let allowed = |allow: &[&str], prefix: &str| {
        user(allow, &[prefix]).allow(&Transaction::new().guard(guard.clone()))
    };
    assert!(allowed(&["outbox:read"], "").is_ok());
    assert!(allowed(&["outbox:write", "cells", "runs"], "").is_err());
    assert!(allowed(&["outbox"], "1").is_err(), "its number is no key");
}

#[test]
fn what_is_missing_is_said() {
    let denied = user(&["feed"], &["app:"]).allow_command(&branch_commands()[0]).unwrap_err();
    assert_eq!(
        (denied.user(), denied.to_string().as_str()),
        ("u", "the right branches:write is missing")
    );
    let list = Command::from(CellCommand::List { prefix: String::new(), after: None, limit: 1 });
    let denied = user(&["cells"], &["app:", "b/"]).allow_command(&list).unwrap_err();
    assert_eq!(denied.to_string(), r#"give a prefix that begins with "app:" or "b/""#);
}

#[test]
fn a_condition_on_the_expiry_reads_what_is_there() {
    let writer = user(&["cells:write", "records:write"], &[""]);
    let name = || name("a");
    let ttl = Ttl::Millis(1);
    let all = [
        ExpireOnly::WithoutExpiry,
        ExpireOnly::WithExpiry,
        ExpireOnly::Later,
        ExpireOnly::Earlier,
        ExpireOnly::EarlierThanThere,
    ];
    let on_both = |only| -> [Command; 2] {
        let record = RecordCommand::Expire { key: name(), ttl, only };
        [StringCommand::Expire { name: name(), ttl, only }.into(), record.into()]
    };
    for command in all.into_iter().flat_map(on_both) {
        assert!(writer.allow_command(&command).is_err(), "{command:?}");
    }
    for command in on_both(ExpireOnly::Always) {
        assert!(writer.allow_command(&command).is_ok(), "{command:?}");
    }
}
