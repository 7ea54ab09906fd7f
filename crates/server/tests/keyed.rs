//! Keyed state over RESP, byte by byte: all commands, transactions, branches, snapshots.

mod support;

use mainstay::{Database, KeyedState, Merging, SpaceOptions, StateWrite};
use std::sync::Arc;
use support::{Client, Ours};

/// Sends lines one after the other and checks the beginning of each reply.
fn answers_as_written_down(cases: &[(&str, &str)]) {
    let ours = Ours::start();
    let mut client = ours.client();
    for (line, expected) in cases {
        let reply = client.line(line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
    }
}

#[test]
fn states_answer_as_written_down() {
    answers_as_written_down(&[
        ("STATE.PUT s a one VERSION 7", r":1\r\n"),
        ("state.put s a two version 7", r":0\r\n"),
        ("STATE.PUT s a two VERSION 6", r":0\r\n"),
        ("STATE.GET s a", r"*2\r\n$3\r\none\r\n$1\r\n7\r\n"),
        ("STATE.PUT s b x VERSION 18446744073709551615", r":1\r\n"),
        ("STATE.GET s b", r"*2\r\n$1\r\nx\r\n$20\r\n18446744073709551615\r\n"),
        ("STATE.GET s none", r"$-1\r\n"),
        ("STATE.GET none a", r"$-1\r\n"),
        ("STATE.LIST s", r"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("STATE.LIST s PREFIX b", r"*1\r\n$1\r\nb\r\n"),
        ("STATE.LIST s AFTER a LIMIT 1", r"*1\r\n$1\r\nb\r\n"),
        ("STATE.LIST none", r"*0\r\n"),
        (
            "STATE.SCAN s LIMIT 1",
            r"*2\r\n$1\r\na\r\n*1\r\n*3\r\n$1\r\na\r\n$3\r\none\r\n$1\r\n7\r\n",
        ),
        ("STATE.SCAN s AFTER a", r"*2\r\n$-1\r\n*1\r\n*3\r\n$1\r\nb\r\n"),
        ("STATE.DEL s a VERSION 7", r":0\r\n"),
        ("STATE.DEL s a VERSION 8", r":1\r\n"),
        ("STATE.GET s a", r"$-1\r\n"),
        ("STATE.PUT s a again VERSION 8", r":0\r\n"),
        ("STATE.GET s a REV 1", r"*2\r\n$3\r\none\r\n"),
        ("STATE.LIST s REV 1", r"*1\r\n$1\r\na\r\n"),
        ("STATE.APPEND s a 1 first", r":1\r\n"),
        ("STATE.APPEND s a 1 other", r":0\r\n"),
        ("STATE.APPEND s a 2 second", r":1\r\n"),
        ("STATE.ITEMS s a LIMIT 1", r"*1\r\n*2\r\n$1\r\n1\r\n$5\r\nfirst\r\n"),
        ("STATE.ITEMS s a AFTER 1", r"*1\r\n*2\r\n$1\r\n2\r\n$6\r\nsecond\r\n"),
        ("STATE.ITEMS s none", r"*0\r\n"),
        ("STATE.ADVANCE s orders 8", r":1\r\n"),
        ("STATE.ADVANCE s orders 8", r":0\r\n"),
        ("STATE.ADVANCE s beyond 18446744073709551615", r":1\r\n"),
        (
            "STATE.POSITIONS s",
            r"*2\r\n*2\r\n$6\r\nbeyond\r\n$20\r\n18446744073709551615\r\n*2\r\n$6\r\norders\r\n:8\r\n",
        ),
        ("STATE.POSITIONS s REV 1", r"*0\r\n"),
        ("STATE.SPACES", r"*1\r\n$1\r\ns\r\n"),
        ("STATE.SPACES PREFIX t", r"*0\r\n"),
        ("STATE.SPACES AFTER s LIMIT 1", r"*0\r\n"),
        ("STATE.INFO none", r"$-1\r\n"),
        ("STATE.INFO s", r"$"),
        ("STATE.WAITING s", r"*0\r\n"),
        ("STATE.DROP s", r":1\r\n"),
        ("STATE.DROP s", r":0\r\n"),
        ("STATE.LIST s", r"*0\r\n"),
        ("STATE.SPACES", r"*0\r\n"),
    ]);
}

#[test]
fn a_space_in_order_waits_until_it_is_sealed() {
    answers_as_written_down(&[
        ("STATE.CREATE s VERSIONS time ORDERED GROUPS 16", r":1\r\n"),
        ("STATE.CREATE s VERSIONS time ORDERED GROUPS 16", r":0\r\n"),
        ("STATE.CREATE s ORDERED GROUPS 16", r":0\r\n"),
        ("STATE.CREATE s", "-EXISTS "),
        ("STATE.INFO s", r#"$"#),
        ("STATE.PUT s a one VERSION 1.2", r":1\r\n"),
        ("STATE.PUT s a two VERSION 2.0", r":1\r\n"),
        ("STATE.DEL s b VERSION 1.0", r":1\r\n"),
        ("STATE.GET s a", r"$-1\r\n"),
        (
            "STATE.WAITING s BELOW 2.0",
            r"*2\r\n*3\r\n$1\r\nb\r\n$3\r\n1.0\r\n$-1\r\n*3\r\n$1\r\na\r\n$3\r\n1.2\r\n$3\r\none\r\n",
        ),
        ("STATE.SEAL s 2.0", r":2\r\n"),
        ("STATE.SEAL s 2.0", r":0\r\n"),
        ("STATE.GET s a", r"*2\r\n$3\r\none\r\n$3\r\n1.2\r\n"),
        ("STATE.PUT s a late VERSION 1.9", r":0\r\n"),
        ("STATE.PUT s a 3 VERSION 3", "-INVALID "),
        ("STATE.SEAL s 3", "-INVALID "),
        ("STATE.SEAL s 2.1", r":1\r\n"),
        ("STATE.GET s a", r"*2\r\n$3\r\ntwo\r\n$3\r\n2.0\r\n"),
    ]);
}

/// A command cannot name a merge function. The error says where to declare such a space.
#[test]
fn a_space_that_is_merged_is_declared_where_its_function_is() {
    let ours = Ours::start();
    let mut client = ours.client();
    let reply = client.line("STATE.CREATE s VERSIONS u64 MERGED");
    assert!(
        reply.starts_with("-UNSUPPORTED the function that merges is part of a program"),
        "{reply}"
    );
    assert!(client.line("STATE.INFO s").starts_with(r"$-1\r\n"));
    let space = ours.db.keyed("s").unwrap();
    space.declare(SpaceOptions::default().merged()).unwrap();
    let sums =
        Merging::new(Arc::new(space), |_, old, new| Ok([old.unwrap_or_default(), new].concat()));
    sums.put(b"a", b"x", 1.into()).unwrap();
    sums.put(b"a", b"y", 2.into()).unwrap();
    let reply = client.line("STATE.PUT s a z VERSION 3");
    assert!(reply.contains("put it where that function is"), "{reply}");
    assert!(client.line("STATE.GET s a").starts_with(r"*2\r\n$2\r\nxy\r\n$1\r\n2\r\n"));
}

#[test]
fn bad_input_is_told_what_is_wrong_and_leaves_nothing() {
    answers_as_written_down(&[
        ("STATE.PUT s a one VERSION -1", "-INVALID "),
        ("STATE.PUT s a one VERSION 1.", "-INVALID "),
        ("STATE.PUT s a one REVISION 1", "-INVALID give STATE.PUT space key value VERSION"),
        ("STATE.PUT s a one", "-ERR wrong number"),
        ("STATE.DEL s a VERSION x", "-INVALID "),
        ("STATE.DEL s a AT 1", "-INVALID give STATE.DEL"),
        ("STATE.GET s a b", "-INVALID give STATE.GET"),
        ("STATE.GET s a REV x", "-INVALID give STATE.GET"),
        ("STATE.GET s a REV 99", "-INVALID "),
        ("STATE.LIST s BELOW 1", "-INVALID give STATE.LIST"),
        ("STATE.LIST s LIMIT 0", "-INVALID "),
        ("STATE.LIST s LIMIT 100001", "-INVALID "),
        ("STATE.SCAN s AFTER", "-INVALID give STATE.SCAN"),
        ("STATE.ITEMS s a PREFIX b", "-INVALID give STATE.ITEMS"),
        ("STATE.ADVANCE s orders -1", "-INVALID give STATE.ADVANCE"),
        ("STATE.ADVANCE s _mainstay/x 1", "-INVALID "),
        ("STATE.CREATE s VERSIONS u32", "-INVALID "),
        ("STATE.CREATE s GROUPS 0", "-INVALID "),
        ("STATE.CREATE s GROUPS 99999999999", "-INVALID "),
        ("STATE.CREATE s COLOUR red", "-INVALID give STATE.CREATE"),
        ("STATE.SEAL s now", "-INVALID "),
        ("STATE.RESTORE s bytes", "-CORRUPT "),
        ("STATE.PUT _mainstay/s a one VERSION 1", "-INVALID "),
        ("STATE.SPACES", r"*0\r\n"),
    ]);
    let ours = Ours::start();
    let mut client = ours.client();
    for key in ["", &"k".repeat(1025)] {
        let reply = client.call(&["STATE.PUT", "s", key, "v", "VERSION", "1"]);
        assert!(reply.starts_with("-INVALID "), "{reply}");
    }
    assert_eq!(client.line("STATE.SPACES"), r"*0\r\n");
}

#[test]
fn keys_and_values_are_any_bytes() {
    let ours = Ours::start();
    let mut client = ours.client();
    let key = &b"\xff\x00 k"[..];
    let value = &b"\x00\xfe"[..];
    assert_eq!(client.call(&[b"STATE.PUT", &b"s"[..], key, value, b"VERSION", b"1"]), r":1\r\n");
    assert_eq!(
        client.call(&[b"STATE.GET", &b"s"[..], key]),
        r"*2\r\n$2\r\n\x00\xfe\r\n$1\r\n1\r\n"
    );
    assert_eq!(client.line("STATE.LIST s"), r"*1\r\n$4\r\n\xff\x00 k\r\n");
    client.line("HELLO 3");
    assert_eq!(client.line("STATE.GET s none"), r"_\r\n");
    let info = client.line("STATE.INFO s").replace('\\', "");
    assert!(info.contains(r#""versions":"u64""#) && info.contains(r#""frontier":null"#), "{info}");
}

#[test]
fn states_are_part_of_transactions_and_of_branches() {
    let ours = Ours::start();
    let mut client = ours.client();
    for line in ["MULTI", "STATE.PUT s a 1 VERSION 1", "STATE.ADVANCE s orders 2", "SET c 1"] {
        client.line(line);
    }
    assert_eq!(client.line("STATE.GET s a"), r"+QUEUED\r\n");
    assert_eq!(client.line("STATE.SNAPSHOT s"), r"+QUEUED\r\n");
    let done = client.line("EXEC");
    assert!(done.starts_with(r"*5\r\n:1\r\n:1\r\n+OK\r\n*2\r\n$1\r\n1\r\n"), "{done}");
    assert!(done.contains("MSTKEYS1"), "{done}");

    assert_eq!(client.line("TXN.BEGIN"), r"+OK\r\n");
    assert_eq!(client.line("STATE.PUT s a 2 VERSION 2"), r":1\r\n");
    assert!(client.line("STATE.GET s a").contains(r"$1\r\n2\r\n"), "its own writes");
    assert!(ours.client().line("STATE.GET s a").contains(r"$1\r\n1\r\n"), "nobody else's");
    assert_eq!(ours.client().line("STATE.PUT s a 3 VERSION 3"), r":1\r\n");
    assert!(client.line("TXN.COMMIT").starts_with("-CONFLICT"));

    client.line("BRANCH.FORK side");
    client.line("BRANCH.USE side");
    assert_eq!(client.line("STATE.PUT s a side VERSION 9"), r":1\r\n");
    assert!(ours.client().line("STATE.GET s a").contains(r"$1\r\n3\r\n"));
    let diff = client.line("BRANCH.DIFF main side");
    assert!(diff.contains("keyed") && diff.contains("s/a"), "{diff}");
    assert!(client.line("BRANCH.MERGE side main").starts_with(':'));
    assert!(ours.client().line("STATE.GET s a").contains(r"$4\r\nside\r\n"));
    let feed = client.line("FEED.READ PREFIX s/a WAIT 60000");
    assert!(feed.contains("keyed"), "{feed}");
    client.line("DURABILITY MEMORY");
    assert_eq!(client.line("STATE.PUT s a quick VERSION 10"), r":1\r\n");
    assert_eq!(client.line("STATE.SEAL s 5"), r":0\r\n");
}

/// Writes `count` waiting entries with distinct versions.
fn many_wait(db: &Database, count: u64) {
    let space = db.keyed("s").unwrap();
    space.declare(mainstay::SpaceOptions::default().ordered()).unwrap();
    for piece in (0..count).collect::<Vec<_>>().chunks(50_000) {
        space
            .write(
                piece
                    .iter()
                    .map(|version| StateWrite::put(format!("k{}", version % 100), "v", *version))
                    .collect(),
            )
            .unwrap();
    }
}

#[test]
fn sealing_takes_as_many_pieces_as_it_needs_and_says_where_it_may_not() {
    let ours = Ours::start();
    many_wait(&ours.db, 120_000);
    let mut client = ours.client();
    client.line("MULTI");
    assert_eq!(client.line("STATE.SEAL s 15000"), r"+QUEUED\r\n");
    assert_eq!(client.line("EXEC"), r"*1\r\n:15000\r\n", "one piece is enough");
    let before = ours.db.revision();
    assert_eq!(client.line("STATE.SEAL s 40000"), r":25000\r\n");
    assert!(ours.db.revision() > before + 1, "several transactions");
    many_wait_more(&mut client);
}

/// A seal that is too large for one transaction fails inside a transaction and succeeds outside.
fn many_wait_more(client: &mut Client) {
    for line in ["TXN.BEGIN", "STATE.SEAL s 41000"] {
        client.line(line);
    }
    assert!(client.line("TXN.COMMIT").starts_with(':'));
    assert_eq!(client.line("STATE.SEAL s 120000"), r":79000\r\n");
    let scanned = client.line("STATE.SCAN s PREFIX k1 LIMIT 1");
    assert!(scanned.contains("119901"), "{scanned}");
}

#[test]
fn a_seal_that_one_transaction_cannot_hold_says_so() {
    let ours = Ours::start();
    let space = ours.db.keyed("s").unwrap();
    space.declare(mainstay::SpaceOptions::default().ordered()).unwrap();
    let value = vec![b'v'; 1 << 20];
    for version in 0..20_u64 {
        space.put("k", &value, version).unwrap();
    }
    let mut client = ours.client();
    client.line("MULTI");
    client.line("STATE.SEAL s 20");
    let done = client.line("EXEC");
    assert!(done.starts_with(r"*1\r\n-TOOLARGE ") && done.contains("outside of MULTI"), "{done}");
    assert!(client.line("STATE.SEAL s 20").starts_with(':'));
    assert_eq!(space.get("k").unwrap().unwrap().version, 19.into());
    assert_eq!(space.waiting(None, 9).unwrap(), []);
}

fn bulk(client: &mut Client, words: &[&[u8]]) -> Vec<u8> {
    client.send(words);
    assert_eq!(client.byte(), b'$');
    let mut length = String::new();
    loop {
        match client.byte() {
            b'\r' => break,
            digit => length.push(digit.into()),
        }
    }
    client.byte();
    let bytes = (0..length.parse().unwrap()).map(|_| client.byte()).collect();
    assert_eq!([client.byte(), client.byte()], *b"\r\n");
    bytes
}

#[test]
fn a_snapshot_is_taken_and_restored_whole_or_not_at_all() {
    let ours = Ours::start();
    let mut client = ours.client();
    for line in [
        "STATE.PUT s a 1 VERSION 1.1",
        "STATE.PUT s b 2 VERSION 1.2",
        "STATE.DEL s c VERSION 1.3",
        "STATE.APPEND s a id item",
        "STATE.ADVANCE s orders 7",
    ] {
        assert_eq!(client.line(line), r":1\r\n", "{line}");
    }
    let bytes = bulk(&mut client, &[b"STATE.SNAPSHOT", b"s"]);
    assert_eq!(bytes, ours.db.keyed("s").unwrap().snapshot().unwrap());
    client.line("STATE.PUT other z 9 VERSION 9");
    let restored = client.call(&[&b"STATE.RESTORE"[..], b"other", &bytes]);
    assert_eq!(restored, r":5\r\n");
    assert_eq!(client.line("STATE.GET other z"), r"$-1\r\n");
    assert_eq!(bulk(&mut client, &[b"STATE.SNAPSHOT", b"other"]), bytes);
    for place in [9, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        let reply = client.call(&[&b"STATE.RESTORE"[..], b"other", &damaged]);
        assert!(reply.starts_with("-CORRUPT "), "{place}: {reply}");
    }
    let cut = client.call(&[&b"STATE.RESTORE"[..], b"other", &bytes[..bytes.len() - 1]]);
    assert!(cut.starts_with("-CORRUPT "), "{cut}");
    assert_eq!(bulk(&mut client, &[b"STATE.SNAPSHOT", b"other"]), bytes);
    let revision = ours.db.revision().to_string();
    client.line("STATE.DROP other");
    let then = bulk(&mut client, &[b"STATE.SNAPSHOT", b"other", b"REV", revision.as_bytes()]);
    assert_eq!(then, bytes);
    let none = bulk(&mut client, &[b"STATE.SNAPSHOT", b"none"]);
    assert_eq!(client.call(&[&b"STATE.RESTORE"[..], b"made", &none]), r":0\r\n");
}

#[test]
fn a_space_too_large_for_a_reply_is_sent_elsewhere() {
    let ours = Ours::start();
    let space = ours.db.keyed("s").unwrap();
    for key in 0..20_u64 {
        space.put(key.to_be_bytes(), vec![7; 1 << 20], 1).unwrap();
    }
    let reply = ours.client().line("STATE.SNAPSHOT s");
    assert!(reply.starts_with("-TOOLARGE ") && reply.contains("HTTP"), "{reply}");
    assert!(reply.contains("mainstay state snapshot"), "{reply}");
    // A snapshot that was returned can be restored. Two large values together are too much, and a single
    // one of maximal size is allowed.
    let two = ours.db.keyed("two").unwrap();
    let one = ours.db.keyed("one").unwrap();
    two.put("a", vec![7; 10 << 20], 1).unwrap();
    two.put("b", vec![7; 10 << 20], 1).unwrap();
    one.put("a", vec![7; 16 << 20], 1).unwrap();
    let mut client = ours.client();
    assert!(client.line("STATE.SNAPSHOT two").starts_with("-TOOLARGE "));
    let bytes = bulk(&mut client, &[b"STATE.SNAPSHOT", b"one"]);
    assert_eq!(client.call(&[&b"STATE.RESTORE"[..], b"again", &bytes]), r":1\r\n");
}

#[test]
fn many_at_once_in_a_pipeline_are_answered_in_order() {
    let ours = Ours::start();
    let mut client = ours.client();
    let mut all = Vec::new();
    for number in 1..=500 {
        let value = format!("v{number}");
        let version = number.to_string();
        all.extend(support::encode(&["STATE.PUT", "s", "k", &value, "VERSION", &version]));
        all.extend(support::encode(&["STATE.GET", "s", "k"]));
    }
    client.send_bytes(&all);
    for number in 1..=500 {
        assert_eq!(client.receive(), r":1\r\n");
        let state = client.receive();
        assert!(state.contains(&format!(r"v{number}\r\n")), "{state}");
    }
}
