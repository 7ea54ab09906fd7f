//! Users who may write but not read: no answer reveals the old state, except for the commands listed here.

use crate::world::{World, user};
use mainstay::{NewEvent, SessionOptions};
use mainstay_server::resp::table::{self, Group};
use std::collections::BTreeSet;

/// The information that an answer reveals to a user without read permission.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tells {
    /// The answer is the same for every old state, or a permission error.
    Nothing,
    /// Whether the key existed, or how often it was written. `docs/security.md` lists these commands.
    Presence,
}

use Tells::{Nothing, Presence};

/// Every command that writes data. `%` is replaced by the line number, so that each line has its own names.
const LINES: &[(&str, Tells)] = &[
    ("DEL c%", Presence),
    ("DEL r%", Presence),
    ("UNLINK c%", Presence),
    ("EXPIRE c% 1000", Presence),
    ("PEXPIRE r% 1000000", Presence),
    ("EXPIREAT c% 4102444800", Presence),
    ("PEXPIREAT r% 4102444800000", Presence),
    ("EXPIRE c% 1000 NX", Nothing),
    ("EXPIRE r% 1000 NX", Nothing),
    ("EXPIRE c% 1000 XX", Nothing),
    ("PEXPIRE r% 1000 XX", Nothing),
    ("EXPIRE c% 10 GT", Nothing),
    ("EXPIREAT c% 4102444800 LT", Nothing),
    ("PEXPIREAT r% 4102444800000 GT", Nothing),
    ("EXPIRE r% 10 XX LT", Nothing),
    ("PERSIST c%", Nothing),
    ("PERSIST r%", Nothing),
    ("FLUSHDB", Nothing),
    ("SET c% 2", Nothing),
    ("SET r% 2", Nothing),
    ("SET c% 2 KEEPTTL", Nothing),
    ("SET c% 2 EX 100", Nothing),
    ("SET c% 2 NX", Nothing),
    ("SET c% 2 XX", Nothing),
    ("SET r% 2 XX", Nothing),
    ("SET c% 2 GET", Nothing),
    ("SET c% 2 IFEQ 5", Nothing),
    ("GETSET c% 2", Nothing),
    ("GETDEL c%", Nothing),
    ("GETEX c% EX 100", Nothing),
    ("SETEX c% 100 2", Nothing),
    ("PSETEX c% 100000 2", Nothing),
    ("SETNX c% 2", Nothing),
    ("MSET c% 2 r% 3", Nothing),
    ("MSETNX c% 2", Nothing),
    ("INCR c%", Nothing),
    ("DECR c%", Nothing),
    ("INCRBY c% 2", Nothing),
    ("DECRBY c% 2", Nothing),
    ("INCRBYFLOAT c% 2", Nothing),
    ("APPEND c% 2", Nothing),
    ("CELL.INIT c% 2", Nothing),
    ("CELL.SET c% 2", Presence),
    ("CELL.CAS c% NIL 2", Nothing),
    ("CELL.CAS c% 1 2", Nothing),
    ("CELL.DEL c%", Presence),
    ("CELL.DEL c% IF 1", Nothing),
    ("CELL.INCR c%", Nothing),
    ("HSET r% f 2", Presence),
    // A cell has this name already.
    ("HSET c% f 2", Presence),
    ("HMSET r% f 2", Nothing),
    ("HSETNX r% f 2", Nothing),
    ("HDEL r% f", Presence),
    ("HINCRBY r% f 2", Nothing),
    ("HINCRBYFLOAT r% f 2", Nothing),
    ("REC.INDEX ADD r f", Nothing),
    ("REC.CAS r% f IS 1 2", Nothing),
    ("REC.CAS r% f ABSENT 2", Nothing),
    ("REC.SET r% FIELDS f 2", Presence),
    ("REC.SET r% IF 1 FIELDS f 2", Nothing),
    ("REC.REPLACE r% FIELDS f 2", Presence),
    ("REC.REPLACE r% IF 1 FIELDS f 2", Nothing),
    ("JOB.SUBMIT t j%", Nothing),
    ("JOB.CLAIM t WORKER w", Nothing),
    ("JOB.BEAT t j% 1", Nothing),
    ("JOB.STEP t j% 1 1", Nothing),
    ("JOB.DONE t j% 1", Nothing),
    ("JOB.FAIL t j% 1 no", Nothing),
    ("JOB.CANCEL t j%", Nothing),
    ("JOB.RETRY t j%", Nothing),
    ("JOB.SWEEP", Nothing),
    ("LOCK.TAKE l% OWNER o LEASE 1000", Nothing),
    ("LOCK.RENEW l% 1 LEASE 1000", Nothing),
    ("LOCK.FREE l% 1", Nothing),
    ("RUN.APPEND u% E 1 PLAN 1", Nothing),
    ("RUN.BATCH u% [{\"eventType\":\"E\",\"planVersion\":\"1\"}]", Nothing),
    ("RUN.BOOTSTRAP u% null []", Nothing),
    ("RUN.DELETE u%", Presence),
    ("OUTBOX.PUT s% payload", Presence),
    ("OUTBOX.CLAIM 1 LEASE 1000", Nothing),
    ("OUTBOX.ACK 1", Nothing),
    ("OUTBOX.FAIL 1 no", Nothing),
    ("OUTBOX.REPLAY 1", Nothing),
    ("STATE.PUT s% k 2 VERSION 1", Nothing),
    ("STATE.DEL s% k VERSION 1", Nothing),
    ("STATE.APPEND s% k i 2", Nothing),
    ("STATE.ADVANCE s% source 1", Nothing),
    ("STATE.CREATE s%", Nothing),
    ("STATE.SEAL s% 1", Nothing),
    ("STATE.RESTORE s% x", Nothing),
    ("STATE.DROP s%", Presence),
    ("SESSION.OPEN ID z%", Nothing),
    ("SESSION.DO z% 1 LOWEST 1 SET c% 2", Presence),
    ("SESSION.SEND z% hello", Presence),
    ("SESSION.RETRY 1", Nothing),
    ("SESSION.ACK z% 1", Presence),
    ("SESSION.KEEPALIVE z%", Presence),
    ("SESSION.CLOSE z%", Presence),
];

const GROUPS: [Group; 10] = [
    Group::Keys,
    Group::Strings,
    Group::Cells,
    Group::Hashes,
    Group::Records,
    Group::Jobs,
    Group::Runs,
    Group::Outbox,
    Group::Keyed,
    Group::Sessions,
];

/// The state before a line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum There {
    Nothing,
    Something,
    /// The same with an expiry, and written twice.
    Expiring,
}

fn world(there: There) -> World {
    let areas = ["cells", "records", "runs", "outbox", "keyed", "sessions"];
    let rights: Vec<String> = areas.iter().map(|area| format!("{area}:write")).collect();
    let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
    let world = World::with(|settings| settings.users.push(user("blind", &rights, &[""])));
    for number in 0..LINES.len() {
        fill(&world, there, number);
    }
    world
}

fn fill(world: &World, there: There, number: usize) {
    if there == There::Nothing {
        return;
    }
    let cells = world.db.cells();
    let records = world.db.records();
    let named = |letter: &str| format!("{letter}{number}");
    cells.set(&named("c"), "5").unwrap();
    records.set_field(&named("r"), "f", "1").unwrap();
    world.db.runs().append(NewEvent::new(&named("u"), "E").plan("1")).unwrap();
    world.db.keyed(&named("s")).unwrap().put("k", "1", 1).unwrap();
    world.db.outbox().put(&named("s"), "payload", None).unwrap();
    world.db.sessions().open(SessionOptions::new().name(&named("z"))).unwrap();
    if there == There::Expiring {
        cells.set(&named("c"), "7").unwrap();
        let ttl = mainstay::Ttl::Millis(60_000);
        cells.expire(&named("c"), ttl).unwrap();
        records.set_field(&named("r"), "g", "2").unwrap();
        records.expire(&named("r"), ttl).unwrap();
    }
}

/// Returns the reply to each line.
fn replies(there: There) -> Vec<String> {
    let world = world(there);
    let mut client = world.client("blind");
    let numbered = LINES.iter().enumerate();
    let ask = |(number, (line, _)): (usize, &(&str, Tells))| {
        let line = line.replace('%', &number.to_string());
        client.send(&line.split(' ').collect::<Vec<_>>());
        client.receive()
    };
    numbered.map(ask).collect()
}

#[test]
fn who_may_not_read_is_told_nothing_of_what_is_there() {
    let worlds = [There::Nothing, There::Something, There::Expiring];
    let [nothing, something, expiring] = worlds.map(replies);
    let mut wrong = Vec::new();
    for (number, (line, tells)) in LINES.iter().enumerate() {
        let all = [&nothing[number], &something[number], &expiring[number]];
        let same = all.iter().all(|reply| *reply == all[0]);
        let told = if same { Nothing } else { Presence };
        let understood = all.iter().all(|reply| !reply.starts_with("-ERR"));
        if told != *tells || !understood {
            wrong.push(format!("{line}: {told:?} {all:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_command_that_writes_data_is_left_out() {
    let name = |line: &str| line.split(' ').next().unwrap().to_lowercase();
    let listed = LINES.iter().map(|(line, _)| name(line));
    // These commands end or contain other commands.
    let listed: BTreeSet<String> = listed.chain(["session.exec".to_owned()]).collect();
    let there = table::all().filter(|spec| spec.writes && GROUPS.contains(&spec.group));
    let there: BTreeSet<String> = there.map(|spec| spec.name.to_owned()).collect();
    assert_eq!(listed, there);
}

/// Conditions over HTTP, on cells and records that exist and that do not.
#[test]
fn conditions_over_http_need_the_right_to_read() {
    let world = world(There::Nothing);
    world.db.cells().set("there", 1).unwrap();
    world.db.records().set_field("there", "f", "1").unwrap();
    let blind = crate::world::basic("blind", crate::world::PASSWORD);
    for name in ["there", "absent"] {
        for header in [("if-match", "\"1\""), ("if-match", "\"7\""), ("if-none-match", "*")] {
            for (method, kind, body) in [
                ("PUT", "cells", "2"),
                ("DELETE", "cells", ""),
                ("PUT", "records", r#"{"f":"2"}"#),
                ("PATCH", "records", r#"{"set":{"f":"2"}}"#),
                ("DELETE", "records", ""),
            ] {
                let path = format!("/v1/{kind}/{name}");
                let said = world.ask_as(Some(&blind), method, &path, &[header], body.as_bytes());
                assert_eq!(said.0, 403, "{method} {path} {header:?}");
                assert!(!said.1.contains_key("etag"), "{method} {path}");
            }
        }
        for guard in [
            format!(r#"{{"counter":{{"name":"{name}","is":1}}}}"#),
            format!(r#"{{"absent":{{"name":"{name}"}}}}"#),
            format!(r#"{{"record_absent":{{"key":"{name}"}}}}"#),
            format!(r#"{{"field":{{"key":"{name}","field":"f","is":"1"}}}}"#),
        ] {
            for otherwise in ["", r#","otherwise":[]"#] {
                let body = format!(r#"{{"guards":[{guard}],"commands":[]{otherwise}}}"#);
                let (status, text) = world.ask(Some("blind"), "POST", "/v1/transactions", &body);
                assert_eq!(status, 403, "{body}: {text}");
            }
        }
    }
}
