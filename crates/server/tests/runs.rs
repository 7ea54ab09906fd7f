//! Runs and the outbox over RESP, byte by byte: all commands, transactions, branches, blocking reads.

mod support;

use mainstay::NewEvent;
use std::thread;
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

fn say(client: &mut Client, words: &[&str]) -> String {
    client.send(words);
    bare(&client.receive())
}

/// Removes the escapes of quotes in a reply, so that JSON can be recognized in it.
fn bare(reply: &str) -> String {
    reply.replace("\\\"", "\"")
}

/// The event that makes a reply large is its last one, because the reply is created on an event loop.
#[test]
fn a_tail_of_large_events_comes_in_pieces() {
    let ours = Ours::start();
    for number in 0..20 {
        let event = NewEvent::new("r", "Noted").with_key(&number.to_string());
        ours.db.runs().append(event.value("x".repeat(100 << 10))).unwrap();
    }
    ours.db.sync().unwrap();
    let mut client = ours.client();
    for (after, events) in [(0, 3), (3, 3), (18, 2)] {
        let reply = client.line(&format!("RUN.TAIL r AFTER {after} LIMIT 1000"));
        assert!(reply.starts_with(&format!(r"*{events}\r\n")), "{after}");
    }
    assert!(client.line("RUN.FETCH r LIMIT 1000").starts_with(r"*20\r\n"));
}

const STARTED: &str = r#"[{"eventType":"RunStarted","planVersion":"1"}]"#;

#[test]
fn runs_answer_as_written_down() {
    answers_as_written_down(&[
        ("RUN.APPEND r RunStarted {} PLAN 1", r"*6\r\n:1\r\n:0\r\n:1\r\n:0\r\n$36\r\n"),
        ("run.append r RunStarted {} PLAN 1", r"*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n$36\r\n"),
        ("RUN.APPEND r RunStarted else PLAN 1", r"*6\r\n:1\r\n:1\r\n:0\r\n:1\r\n$36\r\n"),
        (
            "RUN.APPEND r StepStarted x STEP a ATTEMPT 1 PLAN 1 EVENTID mine EXPECT 1",
            r"*6\r\n:2\r\n:0\r\n:1\r\n:0\r\n$4\r\nmine\r\n",
        ),
        ("RUN.APPEND r StepFailed x STEP a PLAN 1 EXPECT 1", "-CONFLICT "),
        ("RUN.SNAPSHOT none", r"$-1\r\n"),
        ("RUN.PROJECT none", r"$-1\r\n"),
        ("RUN.INFO none", r"$-1\r\n"),
        ("RUN.FETCH none", r"*0\r\n"),
        ("RUN.TAIL none", r"*0\r\n"),
        ("RUN.REVISION r 2", ":"),
        ("RUN.REVISION r 3", r"$-1\r\n"),
        ("RUN.ALERTS r", r"*0\r\n"),
        ("RUN.INFO r", r"*7\r\n$7\r\nRUNNING\r\n:2\r\n:0\r\n:"),
        ("RUN.LIST", r"*1\r\n$1\r\nr\r\n"),
        ("RUN.LIST STATUS running PREFIX r", r"*1\r\n$1\r\nr\r\n"),
        ("RUN.LIST STATUS FAILED", r"*0\r\n"),
        ("RUN.LIST AFTER r LIMIT 1", r"*0\r\n"),
        ("RUN.DELETE r", r":1\r\n"),
        ("RUN.DELETE r", r":0\r\n"),
        ("RUN.FETCH r", r"*0\r\n"),
        ("RUN.APPEND r RunStarted {} PLAN 1", "-NOTFOUND "),
        ("RUN.KEY r StepCompleted STEP s ATTEMPT 3 PLAN 7 PLANID p", r"$64\r\n"),
    ]);
}

#[test]
fn events_come_as_json_with_all_their_fields() {
    for hello in ["HELLO 2", "HELLO 3"] {
        let ours = Ours::start();
        let mut client = ours.client();
        client.line(hello);
        client.line("RUN.APPEND r RunStarted 1 PLAN 1");
        let more = r#"{"tenant":"t","engineAttemptId":"4"}"#;
        let words =
            ["RUN.APPEND", "r", "StepStarted", "[1]", "STEP", "a", "SIGNAL", "s", "PLAN", "1"];
        let last = ["PLANID", "p", "KEY", "k", "EMITTED", "2026-02-11T10:00:00Z", "MORE", more];
        let reply = say(&mut client, &[&words[..], &last].concat());
        assert!(reply.starts_with(r"*6\r\n:2\r\n"), "{reply}");
        let fetched = bare(&client.line("RUN.FETCH r AFTER 1"));
        assert!(fetched.starts_with(r"*1\r\n*2\r\n:2\r\n$"), "{fetched}");
        for part in [
            r#""stepId":"a""#,
            r#""eventData":[1]"#,
            r#""causedBySignalId":"s""#,
            r#""planId":"p""#,
            r#""idempotencyKey":"k""#,
            r#""emittedAt":"2026-02-11T10:00:00Z""#,
            r#""tenant":"t""#,
            r#""engineAttemptId":"4""#,
            r#""contractVersion":"1.0""#,
        ] {
            assert!(fetched.contains(part), "{part}: {fetched}");
        }
        assert_eq!(bare(&client.line("RUN.TAIL r AFTER 1 WAIT 60000")), fetched);
        let snapshot = bare(&client.line("RUN.SNAPSHOT r"));
        for part in
            ["\"lastEventSeq\":2", "\"hash\":\"", "\"status\":", "\"steps\":{\"a\":", "\"flags\":["]
        {
            assert!(snapshot.contains(part), "{part}: {snapshot}");
        }
        assert_eq!(bare(&client.line("RUN.PROJECT r")), snapshot);
        assert_eq!(bare(&client.line("RUN.SNAPSHOT r SEQ 2")), snapshot);
        let none = if hello == "HELLO 3" { r"_\r\n" } else { r"$-1\r\n" };
        assert_eq!(client.line("RUN.SNAPSHOT r SEQ 3"), none);
        client.send(&["RUN.APPEND", "r", "Noted", "{\"half", "KEY", "text"]);
        client.receive();
        let text = client.line("RUN.FETCH r AFTER 2").replace('\\', "");
        assert!(text.contains(r#""eventData":"{"half""#), "{text}");
        assert_eq!(client.line("RUN.FETCH r AFTER 1 LIMIT 1 REV 1"), r"*0\r\n");
    }
}

#[test]
fn a_batch_is_all_or_none_and_a_run_is_made_once() {
    let ours = Ours::start();
    let mut client = ours.client();
    let made = say(&mut client, &["RUN.BOOTSTRAP", "r", r#"{"who":"me"}"#, STARTED]);
    assert_eq!(made, r"*1\r\n:1\r\n");
    assert!(bare(&client.line("RUN.INFO r")).ends_with(r#"$12\r\n{"who":"me"}\r\n"#));
    assert!(say(&mut client, &["RUN.BOOTSTRAP", "r", "null", "[]"]).starts_with("-EXISTS "));
    let event =
        |kind: &str, more: &str| format!(r#"{{"eventType":"{kind}","planVersion":"1"{more}}}"#);
    let step = event("StepStarted", r#","stepId":"a""#);
    let both =
        say(&mut client, &["RUN.BATCH", "r", &format!("[{},{step}]", event("RunStarted", ""))]);
    assert!(both.starts_with(r"*2\r\n*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n"), "{both}");
    assert!(both.contains(r"*6\r\n:2\r\n:0\r\n:1\r\n:0\r\n"), "{both}");
    let other = event("RunPaused", r#","runId":"else""#);
    for (wrong, why) in [
        (format!("[{},{}]", event("RunPaused", ""), event("StepFailed", "")), "event 2 of these"),
        (format!("[{other}]"), "run `else`"),
        ("{}".to_owned(), "JSON array"),
        ("[1]".to_owned(), "event 1"),
    ] {
        let reply = say(&mut client, &["RUN.BATCH", "r", &wrong]);
        assert!(reply.starts_with("-INVALID ") && reply.contains(why), "{wrong}: {reply}");
        let reply = say(&mut client, &["RUN.BOOTSTRAP", "s", "null", &wrong]);
        assert!(reply.starts_with("-INVALID "), "{wrong}: {reply}");
    }
    assert_eq!(say(&mut client, &["RUN.BATCH", "r", "[]"]), r"*0\r\n");
    assert_eq!(ours.db.runs().fetch("r", 0, 9).unwrap().len(), 2);
    assert_eq!(client.line("RUN.LIST"), r"*1\r\n$1\r\nr\r\n");
}

#[test]
fn bad_input_is_told_what_is_wrong_and_leaves_nothing() {
    answers_as_written_down(&[
        ("RUN.APPEND r StepStarted {} PLAN 1", "-INVALID "),
        ("RUN.APPEND r RunStarted {}", "-INVALID "),
        ("RUN.APPEND r|s RunStarted {} PLAN 1", "-INVALID "),
        ("RUN.APPEND _mainstay/r RunStarted {} PLAN 1", "-INVALID "),
        ("RUN.APPEND r RunStarted {} PLAN 1 EMITTED noon", "-INVALID "),
        ("RUN.APPEND r RunStarted {} PLAN 1 EXPECT -1", "-ERR value is not an integer"),
        ("RUN.APPEND r RunStarted {} PLAN", "-ERR syntax error"),
        ("RUN.APPEND r RunStarted {} COLOUR red", "-ERR syntax error"),
        ("RUN.APPEND r RunStarted {} PLAN 1 MORE [1]", "-INVALID MORE"),
        ("RUN.APPEND r RunStarted", "-ERR wrong number"),
        ("RUN.FETCH r LIMIT 0", "-INVALID "),
        ("RUN.FETCH r LIMIT 100001", "-INVALID "),
        ("RUN.FETCH r WAIT 1", "-ERR syntax error"),
        ("RUN.TAIL r LIMIT 0 WAIT 60000", "-INVALID "),
        ("RUN.TAIL r REV 1", "-ERR syntax error"),
        ("RUN.LIST STATUS done", "-INVALID "),
        ("RUN.KEY r T STEP s ATTEMPT", "-ERR syntax error"),
        ("RUN.KEY r T STEP s ATTEMPT 1", "-ERR syntax error"),
        ("RUN.KEY r T PLAN a|b", "-INVALID "),
        ("RUN.LIST", r"*0\r\n"),
        ("OUTBOX.CLAIM 0 LEASE 1000", "-INVALID "),
        ("OUTBOX.CLAIM 1 LEASE 0", "-INVALID "),
        ("OUTBOX.CLAIM 1 FOR 10", "-ERR syntax error"),
        ("OUTBOX.ACK x", "-ERR value is not an integer"),
        ("OUTBOX.PUT s p RUN", "-ERR syntax error"),
        ("OUTBOX.DEAD LIMIT 0", "-INVALID "),
        ("OUTBOX.STATE", r"*4\r\n:0\r\n:0\r\n:0\r\n$-1\r\n"),
    ]);
    let ours = Ours::start();
    let mut client = ours.client();
    for name in ["runId", "stepId", "eventData", "runSeq"] {
        let more = format!(r#"{{"{name}":"x"}}"#);
        let words = ["RUN.APPEND", "r", "RunStarted", "1", "PLAN", "1", "MORE", &more];
        let reply = say(&mut client, &words);
        assert!(reply.starts_with("-INVALID ") && reply.contains(name), "{reply}");
    }
    assert_eq!(client.line("RUN.LIST"), r"*0\r\n");
}

#[test]
fn the_outbox_answers_as_written_down() {
    answers_as_written_down(&[
        ("OUTBOX.PUT a one RUN r", r":1\r\n"),
        ("OUTBOX.PUT a two RUN r", r":2\r\n"),
        ("OUTBOX.PUT b three", r":3\r\n"),
        (
            "OUTBOX.CLAIM 10 LEASE 60000",
            r"*2\r\n*3\r\n:1\r\n$1\r\na\r\n$3\r\none\r\n*3\r\n:3\r\n$1\r\nb\r\n$5\r\nthree\r\n",
        ),
        ("OUTBOX.CLAIM 10 LEASE 60000", r"*0\r\n"),
        ("OUTBOX.ACK 1 7", r":1\r\n"),
        ("OUTBOX.CLAIM 10 LEASE 60000", r"*1\r\n*3\r\n:2\r\n$1\r\na\r\n$3\r\ntwo\r\n"),
        ("OUTBOX.FAIL 2 nobody", r"$4\r\nWAIT\r\n"),
        ("OUTBOX.FAIL 7 nobody", r"$-1\r\n"),
        ("OUTBOX.ACK 3 TOKEN 1", "-FENCED "),
        ("OUTBOX.FAIL 3 nobody TOKEN 1", "-FENCED "),
        ("OUTBOX.ACK 7 TOKEN 1", r":0\r\n"),
        ("OUTBOX.ACK 3 TOKEN", "-ERR "),
        ("OUTBOX.ACK 3 TOKEN 1 4", "-ERR syntax error"),
        ("OUTBOX.DEAD", r"*0\r\n"),
        ("OUTBOX.REPLAY 2", r":0\r\n"),
        ("OUTBOX.STATE", r"*4\r\n:2\r\n:0\r\n:3\r\n:"),
    ]);
}

/// Regression test: a repeated `MULTI` stored one event and two messages.
#[test]
fn a_message_comes_with_a_new_event_alone() {
    let paid = r#"RUN.BATCH r [{"eventType":"Paid","planVersion":"1","message":{"subject":"t","payload":{"n":1}}}]"#;
    let paid = paid.to_owned();
    let more = r#"RUN.APPEND r T {} PLAN 1 MORE {"message":1}"#;
    let ours = Ours::start();
    let mut client = ours.client();
    for _ in 0..2 {
        for line in ["MULTI", "RUN.APPEND r RunStarted {} PLAN 1 MESSAGE s p", "SET c 1", "EXEC"] {
            let reply = client.line(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        client.send(&paid.splitn(3, ' ').collect::<Vec<_>>());
        assert!(client.receive().starts_with(r"*1\r\n*6\r\n:2\r\n"));
    }
    assert!(client.line("OUTBOX.STATE").starts_with(r"*4\r\n:2\r\n"));
    let claimed = client.line("OUTBOX.CLAIM 9 LEASE 60000");
    assert!(claimed.starts_with(r"*1\r\n"), "of one run, one behind the other: {claimed}");
    client.send(&more.splitn(8, ' ').collect::<Vec<_>>());
    assert!(client.receive().starts_with("-INVALID message"));
    assert!(client.line("RUN.APPEND r T {} PLAN 1 MESSAGE s").starts_with("-ERR"));
}

/// Regression test: numbers were rejected at 2^63, rounded from 2^64 on, and rounded in events.
#[test]
fn numbers_beyond_64_bits_are_refused_or_kept_as_they_are() {
    let ours = Ours::start();
    let mut client = ours.client();
    for number in ["9223372036854775808", "18446744073709551616", "-18446744073709551616"] {
        let reply = client.line(&format!("CELL.SET c {number} JSON"));
        assert!(reply.starts_with("-INVALID") && reply.contains(number), "{reply}");
        client.line("CELL.SET n 9223372036854775807 JSON");
        let reply = client.line(&format!("CELL.INCR n {number}"));
        assert!(reply.starts_with("-INVALID") && reply.contains(number), "{reply}");
    }
    client.line("RUN.APPEND r Noted 18446744073709551616 PLAN 1");
    let again = client.line("RUN.APPEND r Noted 18446744073709551617 PLAN 1");
    assert!(again.starts_with(r"*6\r\n:1\r\n:1\r\n:0\r\n:1\r\n"), "a conflict: {again}");
    let events = bare(&client.line("RUN.FETCH r"));
    assert!(events.contains(r#""eventData":18446744073709551616,"#), "{events}");
}

#[test]
fn a_claim_tells_its_token_to_whoever_asks() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("OUTBOX.PUT a one");
    let claimed = client.line("OUTBOX.CLAIM 1 LEASE 60000 TOKEN");
    assert!(claimed.starts_with(r"*1\r\n*4\r\n:1\r\n$1\r\na\r\n$3\r\none\r\n:"), "{claimed}");
    let token: String =
        claimed.rsplit(':').next().unwrap().chars().take_while(char::is_ascii_digit).collect();
    assert_eq!(
        client.line(&format!("OUTBOX.FAIL 1 nobody TOKEN 1{token}")).find("-FENCED"),
        Some(0)
    );
    assert_eq!(client.line(&format!("OUTBOX.ACK 1 TOKEN {token}")), r":1\r\n");
}

#[test]
fn settings_say_when_a_message_is_dead() {
    let mut settings = mainstay_server::resp::Settings::default();
    settings.outbox.tries = 1;
    let ours = Ours::with(settings);
    let mut client = ours.client();
    client.line("OUTBOX.PUT a one");
    client.line("OUTBOX.CLAIM 1 LEASE 60000");
    assert_eq!(client.line("OUTBOX.FAIL 1 nobody"), r"$4\r\nDEAD\r\n");
    let dead = r"*1\r\n*5\r\n:1\r\n$1\r\na\r\n$3\r\none\r\n:1\r\n$6\r\nnobody\r\n";
    assert_eq!(client.line("OUTBOX.DEAD LIMIT 3"), dead);
    assert_eq!(client.line("OUTBOX.DEAD AFTER 1"), r"*0\r\n");
    assert_eq!(client.line("OUTBOX.REPLAY 1"), r":1\r\n");
    assert!(client.line("OUTBOX.CLAIM 1 LEASE 60000").starts_with(r"*1\r\n"));
}

#[test]
fn events_and_messages_are_part_of_transactions_and_of_branches() {
    let ours = Ours::start();
    let mut client = ours.client();
    for line in
        ["MULTI", "RUN.APPEND r RunStarted 1 PLAN 1", "OUTBOX.PUT s p RUN r", "CELL.SET c 1"]
    {
        client.line(line);
    }
    assert_eq!(client.line("RUN.TAIL r"), r"+QUEUED\r\n");
    let done = client.line("EXEC");
    assert!(done.starts_with(r"*4\r\n*6\r\n:1\r\n") && done.contains(r":1\r\n:1\r\n"), "{done}");
    client.line("MULTI");
    assert!(client.line("RUN.TAIL r WAIT 1").starts_with("-ERR waiting"));
    assert!(client.line("EXEC").starts_with("-EXECABORT"));

    assert_eq!(client.line("TXN.BEGIN"), r"+OK\r\n");
    assert!(client.line("RUN.APPEND r RunCompleted 1 PLAN 1").starts_with(r"*6\r\n:2\r\n"));
    assert!(client.line("RUN.SNAPSHOT r").contains("COMPLETED"), "its own writes");
    assert!(client.line("RUN.TAIL r WAIT 1").starts_with("-ERR waiting"));
    assert!(ours.client().line("RUN.SNAPSHOT r").contains("RUNNING"), "nobody else's");
    assert!(client.line("TXN.ROLLBACK").starts_with("+OK"));

    let revision = client.line("RUN.REVISION r 1");
    let revision = revision[1..].trim_end_matches(r"\r\n");
    assert!(client.line("RUN.APPEND r RunFailed 1 PLAN 1").starts_with(r"*6\r\n:2\r\n"));
    client.line(&format!("BRANCH.FORK again REV {revision}"));
    client.line("BRANCH.USE again");
    assert!(client.line("RUN.APPEND r RunCompleted 1 PLAN 1").starts_with(r"*6\r\n:2\r\n"));
    assert!(client.line("RUN.SNAPSHOT r").contains("COMPLETED"));
    assert!(ours.client().line("RUN.SNAPSHOT r").contains("FAILED"));
}

/// Waits until `count` commands are waiting for other clients.
fn until_waiting(ours: &Ours, count: usize) {
    let mut client = ours.client();
    let wanted = format!("blocked_clients:{count}\\r\\n");
    while !client.line("INFO clients").contains(&wanted) {
        thread::yield_now();
    }
}

fn note(number: u64) -> NewEvent {
    NewEvent::new("r", "Noted").with_key(&format!("note-{number}")).value(number as i64)
}

#[test]
fn who_follows_a_run_is_woken_by_its_events_and_by_nothing_else() {
    let ours = Ours::start();
    // Far more than the number of worker threads.
    let mut followers: Vec<Client> = (0..32).map(|_| ours.client()).collect();
    for client in &mut followers {
        client.send(&["RUN.TAIL", "r", "WAIT", "60000"]);
    }
    until_waiting(&ours, 32);
    let mut client = ours.client();
    client.line("RUN.APPEND other RunStarted 1 PLAN 1");
    assert_eq!(client.line("RUN.PROJECT none"), r"$-1\r\n", "long work is done meanwhile");
    until_waiting(&ours, 32);
    ours.db.runs().append(note(1)).unwrap();
    for client in &mut followers {
        let reply = client.receive();
        assert!(reply.starts_with(r"*1\r\n*2\r\n:1\r\n"), "{reply}");
        assert_eq!(client.line("PING"), r"+PONG\r\n");
    }
    until_waiting(&ours, 0);
    assert_eq!(client.line("RUN.TAIL r AFTER 1 WAIT 20"), r"*0\r\n", "in vain");
}

#[test]
fn a_follower_sees_every_event_once_and_in_order() {
    let ours = Ours::start();
    let db = ours.db.clone();
    let writer = thread::spawn(move || {
        for number in 1..=200 {
            db.runs().append(note(number)).unwrap();
        }
    });
    let mut client = ours.client();
    let mut seen = 0;
    while seen < 200 {
        let line = format!("RUN.TAIL r AFTER {seen} LIMIT 7 WAIT 60000");
        let reply = bare(&client.line(&line));
        let count = reply.matches("\"runSeq\":").count() as u64;
        assert!((1..=7).contains(&count), "{reply}");
        for seq in seen + 1..=seen + count {
            assert!(reply.contains(&format!("\"runSeq\":{seq},")), "{seq}: {reply}");
        }
        seen += count;
    }
    writer.join().unwrap();
}

#[test]
fn those_who_follow_are_answered_when_the_server_ends() {
    let mut ours = Ours::start();
    let mut client = ours.client();
    client.send(&["RUN.TAIL", "r", "WAIT", "3600000"]);
    until_waiting(&ours, 1);
    ours.stop();
    assert_eq!(client.receive(), r"*0\r\n");
}
