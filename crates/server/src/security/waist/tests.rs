use super::super::prefixes::Prefixes;
use super::super::right::Rights;
use super::*;
use mainstay::{Contract, MergeStrategy, Number, Only, Step, SystemCommand, Ttl, Value};

fn user(allow: &[&str], prefixes: &[&str]) -> User {
    let texts = |all: &[&str]| -> Vec<String> { all.iter().map(ToString::to_string).collect() };
    let rights = Rights::read(&texts(allow)).unwrap();
    User::new("u".into(), rights, Prefixes::new(texts(prefixes)))
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Every command on one key, and whether it reads and writes.
fn on_key(key: &str) -> Vec<(Command, bool, bool)> {
    let (name, value) = (|| name(key), || Value::from("v"));
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
        (StringCommand::Persist { name: name() }, false, true),
    ];
    let cells = cells.into_iter().map(|(command, r, w)| (Command::from(command), r, w));
    cells.chain(strings.into_iter().map(|(command, r, w)| (command.into(), r, w))).collect()
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

#[test]
fn each_command_needs_its_rights_and_its_keys() {
    let reader = user(&["cells:read"], &["app:"]);
    let writer = user(&["cells:write"], &["app:"]);
    let both = user(&["cells"], &["app:"]);
    for (command, reads, writes) in on_key("app:a") {
        assert_eq!(reader.allow_command(&command).is_ok(), !writes, "{command:?}");
        assert_eq!(writer.allow_command(&command).is_ok(), !reads, "{command:?}");
        assert!(both.allow_command(&command).is_ok(), "{command:?}");
    }
    for outside in ["app", "ap", "b:app:", "App:a"] {
        for (command, ..) in on_key(outside) {
            assert!(both.allow_command(&command).is_err(), "{command:?}");
        }
    }
}

#[test]
fn branches_and_the_sweep_are_about_all_keys() {
    let sweep = Command::from(SystemCommand::Sweep { limit: 1 });
    for command in branch_commands() {
        assert!(user(&["branches"], &[""]).allow_command(&command).is_ok(), "{command:?}");
        assert!(user(&["branches:read", "cells"], &[""]).allow_command(&command).is_err());
        assert!(user(&["all"], &["app:"]).allow_command(&command).is_err(), "{command:?}");
        assert!(administrative(&command).is_some(), "{command:?}");
    }
    assert!(user(&["cells", "branches"], &[""]).allow_command(&sweep).is_err());
    assert!(user(&["all"], &["app:"]).allow_command(&sweep).is_err());
    assert!(user(&["admin"], &[""]).allow_command(&sweep).is_ok());
}

#[test]
fn guards_and_the_other_way_of_a_transaction_are_looked_at_too() {
    let both = user(&["cells"], &["app:"]);
    let writer = user(&["cells:write"], &["app:"]);
    let empty = Transaction::new;
    let guards = |key: &str| {
        [
            Guard::Counter { name: name(key), is: None },
            Guard::Value { name: name(key), is: None },
            Guard::Unchanged {
                contract: Contract::Cells,
                name: name(key),
                since: 1,
                expires: None,
            },
            Guard::RangeUnchanged {
                contract: Contract::Cells,
                prefix: key.into(),
                after: None,
                upto: None,
                since: 1,
                expires: None,
            },
        ]
    };
    for guard in guards("app:a") {
        assert!(both.allow(&empty().guard(guard.clone())).is_ok(), "{guard:?}");
        assert!(writer.allow(&empty().guard(guard)).is_err(), "a guard reads");
    }
    for guard in guards("other") {
        assert!(both.allow(&empty().guard(guard.clone())).is_err(), "{guard:?}");
    }
    let get = |key: &str| CellCommand::Get { name: name(key) };
    assert!(both.allow(&empty().step(get("app:a")).step(get("b"))).is_err());
    assert!(both.allow(&empty().otherwise(vec![Step::from(get("b"))])).is_err());
    let pairs = vec![(name("app:a"), Value::from(1)), (name("b"), Value::from(1))];
    let command = StringCommand::SetAll { pairs, only_absent: false };
    assert!(both.allow(&empty().step(command)).is_err(), "every pair is looked at");
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
