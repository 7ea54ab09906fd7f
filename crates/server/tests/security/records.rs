//! The permission that each command and each route on records needs.

use crate::world::{World, user};
use mainstay_server::http::route_names;
use mainstay_server::resp::table::{self, Group};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Read,
    Write,
    Both,
    /// The admin permission.
    Admin,
}

use Needs::{Admin, Both, Read, Write};

/// A user with all keys for each combination of permissions, with the commands that it allows.
const USERS: [(&str, &[&str], &[Needs]); 5] = [
    ("taker", &["records:read"], &[Read]),
    ("giver", &["records:write"], &[Write]),
    ("keeper", &["records"], &[Read, Write, Both]),
    ("teller", &["cells", "feed", "branches", "server", "admin:read"], &[]),
    ("admin", &["admin", "cells"], &[Admin]),
];

fn world() -> World {
    let world = World::with(|settings| {
        settings.users.retain(|known| known.name != "keeper");
        settings.users.extend(USERS.iter().map(|(name, allow, _)| user(name, allow, &[""])));
    });
    world.db.records().set_field("r", "f", "1").unwrap();
    world
}

/// Every command on records and hashes.
const LINES: &[(&str, Needs)] = &[
    ("HGET r f", Read),
    ("HMGET r f g", Read),
    ("HGETALL r", Read),
    ("HEXISTS r f", Read),
    ("HLEN r", Read),
    ("HKEYS r", Read),
    ("HVALS r", Read),
    ("HSTRLEN r f", Read),
    ("HRANDFIELD r", Read),
    ("HSCAN r 0", Read),
    ("HSET r f 1", Write),
    ("HMSET r f 1", Write),
    ("HDEL r g", Write),
    ("HSETNX r f 1", Both),
    ("HINCRBY r f 1", Both),
    ("HINCRBYFLOAT r f 1", Both),
    ("REC.GET r", Read),
    ("REC.GET r REV 1", Read),
    ("REC.HISTORY r", Read),
    ("REC.SCAN r", Read),
    ("REC.SCAN r REV 1", Read),
    ("REC.COUNT r WHERE f = 1", Read),
    ("REC.EXPLAIN r", Read),
    ("REC.INDEX LIST", Read),
    ("REC.INDEX ADD r f", Admin),
    ("REC.INDEX DROP 1", Admin),
    ("REC.SET r FIELDS f 1", Write),
    ("REC.REPLACE r FIELDS f 1", Write),
    ("REC.SET r TTL 60000 FIELDS f 1", Write),
    ("REC.SET r IF 1 FIELDS f 1", Both),
    ("REC.REPLACE r IF 1 FIELDS f 1", Both),
    ("REC.CAS r f IS 1 2", Both),
    ("REC.CAS r f ABSENT 2", Both),
];

#[test]
fn each_command_on_records_needs_its_right_and_no_other_will_do() {
    for (who, _, opens) in USERS {
        let world = world();
        let mut client = world.client(who);
        for (line, needs) in LINES {
            let reply = client.line(line);
            let denied = reply.starts_with("-NOPERM");
            assert_eq!(denied, !opens.contains(needs), "{who}: {line}: {reply}");
            assert!(denied || !reply.starts_with('-'), "{who}: {line}: {reply}");
        }
    }
}

#[test]
fn no_command_on_records_is_left_out() {
    let listed: BTreeSet<String> =
        LINES.iter().map(|(line, _)| line.split(' ').next().unwrap().to_lowercase()).collect();
    let there = table::all().filter(|spec| matches!(spec.group, Group::Hashes | Group::Records));
    let there: BTreeSet<String> = there.map(|spec| spec.name.to_owned()).collect();
    assert_eq!(listed, there);
}

/// Inside a transaction, in `MULTI` and in `TXN`, commands need the same permissions as outside.
#[test]
fn what_stands_inside_a_transaction_needs_the_same() {
    for (who, _, opens) in &USERS[..4] {
        let world = world();
        let mut client = world.client(who);
        for (line, needs) in LINES.iter().filter(|(line, _)| line.starts_with('H')) {
            for (begin, end) in [("MULTI", "DISCARD"), ("TXN.BEGIN", "TXN.ROLLBACK")] {
                assert_eq!(client.line(begin), r"+OK\r\n");
                let reply = client.line(line);
                let denied = reply.starts_with("-NOPERM");
                assert_eq!(denied, !opens.contains(needs), "{who}: {begin}: {line}: {reply}");
                assert_eq!(client.line(end), r"+OK\r\n");
            }
        }
    }
}

/// Method, path, headers, body.
type Asked = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);

const PUT_INDEX: &str = r#"{"fields":["f"]}"#;
const TRANSACTIONS: &str = "/v1/transactions";

/// Every route about records.
const ROUTES: &[(Asked, Needs)] = &[
    (("GET", "/v1/records", &[], ""), Read),
    (("GET", "/v1/records?rev=1", &[], ""), Read),
    (("GET", "/v1/records/r", &[], ""), Read),
    (("GET", "/v1/records/r?rev=1&fields=f", &[], ""), Read),
    (("GET", "/v1/record-count", &[], ""), Read),
    (("GET", "/v1/record-history/r", &[], ""), Read),
    (("GET", "/v1/record-explain", &[], ""), Read),
    (("PUT", "/v1/records/r", &[], r#"{"f":"1"}"#), Write),
    (("PUT", "/v1/records/r?replace=true&ttl_ms=60000", &[], r#"{"f":"1"}"#), Write),
    (("PUT", "/v1/records/r", &[("if-match", "\"1\"")], r#"{"f":"1"}"#), Both),
    (("PUT", "/v1/records/r", &[], r#"{"f":null}"#), Both),
    (("PATCH", "/v1/records/r", &[], r#"{"set":{"f":"1"}}"#), Write),
    (("PATCH", "/v1/records/r", &[], r#"{"set":{"f":{"sum":1}}}"#), Both),
    (("PATCH", "/v1/records/r", &[], r#"{"when":["exists"],"set":{"f":"1"}}"#), Both),
    (("DELETE", "/v1/records/r", &[("if-match", "\"1\"")], ""), Both),
    (("DELETE", "/v1/records/r", &[], ""), Write),
    (("POST", "/v1/record-indexes", &[], PUT_INDEX), Admin),
    (("GET", "/v1/record-indexes", &[], ""), Read),
    (("GET", "/v1/record-indexes/1", &[], ""), Read),
    (("DELETE", "/v1/record-indexes/1", &[], ""), Admin),
    (("POST", TRANSACTIONS, &[], r#"{"commands":[{"get_record":{"key":"r"}}]}"#), Read),
    (("POST", TRANSACTIONS, &[], r#"{"commands":[{"scan_records":{}}]}"#), Read),
    (("POST", TRANSACTIONS, &[], r#"{"commands":[{"count_records":{}}]}"#), Read),
    (("POST", TRANSACTIONS, &[], r#"{"commands":[{"hash_get":{"key":"r"}}]}"#), Read),
    (("POST", TRANSACTIONS, &[], r#"{"guards":[{"record_absent":{"key":"x"}}]}"#), Read),
    (("POST", TRANSACTIONS, &[], r#"{"commands":[{"delete_record":{"key":"r"}}]}"#), Write),
    (
        (
            "POST",
            TRANSACTIONS,
            &[],
            r#"{"commands":[{"write_record":{"key":"r","set":{"f":"1"}}}]}"#,
        ),
        Write,
    ),
    (
        (
            "POST",
            TRANSACTIONS,
            &[],
            r#"{"otherwise":[{"write_record":{"key":"r","when":["exists"],"set":{"f":"1"}}}]}"#,
        ),
        Both,
    ),
];

#[test]
fn each_route_on_records_needs_its_right_and_no_other_will_do() {
    for (who, _, opens) in USERS {
        let world = world();
        let header = crate::world::basic(who, crate::world::PASSWORD);
        for ((method, path, headers, body), needs) in ROUTES {
            let (status, _, text) =
                world.ask_as(Some(&header), method, path, headers, body.as_bytes());
            let text = String::from_utf8_lossy(&text);
            let said = format!("{who}: {method} {path} {body}: {status} {text}");
            assert_eq!(status == 403, !opens.contains(needs), "{said}");
            assert!(![401, 500].contains(&status), "{said}");
        }
    }
}

#[test]
fn no_route_on_records_is_left_out() {
    let bare = |path: &str| {
        let path = path.split('?').next().unwrap();
        let path = path.trim_end_matches("/r").trim_end_matches("/1");
        path.split("/{").next().unwrap().to_owned()
    };
    let listed: BTreeSet<(&str, String)> =
        ROUTES.iter().map(|((method, path, ..), _)| (*method, bare(path))).collect();
    for (method, path) in route_names().iter().filter(|(_, path)| path.contains("/record")) {
        assert!(listed.contains(&(*method, bare(path))), "{method} {path}");
    }
}
