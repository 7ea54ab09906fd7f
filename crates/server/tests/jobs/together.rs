//! Jobs and locks inside `MULTI` and `TXN`: with everything else, or not at all.

use crate::speaker::{claim, parts, text};
use crate::support::Ours;

#[test]
fn a_job_is_done_and_a_cell_is_set_in_one_transaction() {
    let ours = Ours::start();
    let mut client = ours.client();
    for id in ["a", "b"] {
        client.line(&format!("JOB.SUBMIT t {id}"));
    }
    for (id, begin, commit) in [("a", "MULTI", "EXEC"), ("b", "TXN.BEGIN", "TXN.COMMIT")] {
        let got = claim(&mut client, "JOB.CLAIM t WORKER w");
        assert_eq!(got.id, id);
        client.line(begin);
        let before = ours.db.revision();
        client.line(&format!("JOB.DONE t {id} {} RESULT r", got.token));
        client.line(&format!("CELL.SET done/{id} yes"));
        assert_eq!(ours.db.revision(), before, "nothing is there before {commit}");
        assert!(!client.line(commit).contains("-"), "{commit}");
        assert_eq!(ours.db.revision(), before + 1, "one transaction");
        assert_eq!(client.line(&format!("JOB.RESULT t {id}")), text("r"));
        assert_eq!(client.line(&format!("GET done/{id}")), text("yes"));
    }
}

#[test]
fn the_token_of_a_claim_inside_multi_is_the_revision_of_exec() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a DATA x");
    client.line("MULTI");
    for line in
        ["SET before 1", "JOB.CLAIM t WORKER w", "LOCK.TAKE l OWNER o LEASE 60000", "GET before"]
    {
        assert_eq!(client.line(line), r"+QUEUED\r\n", "{line}");
    }
    let reply = client.line("EXEC");
    let revision = ours.db.revision().to_string();
    assert_eq!(parts(&reply), ["+OK", "a", &revision, "x", &revision, "1"], "{reply}");
    assert_eq!(client.line(&format!("JOB.DONE t a {revision}")), text("completed"));
    assert_eq!(client.line(&format!("LOCK.FREE l {revision}")), r":1\r\n");
}

#[test]
fn the_token_of_a_claim_inside_txn_is_the_revision_of_the_commit() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a");
    client.line("TXN.BEGIN");
    assert_eq!(parts(&client.line("JOB.CLAIM t WORKER w")), ["a", "0", "$-1"]);
    assert_eq!(client.line("LOCK.TAKE l OWNER o LEASE 60000"), r":0\r\n");
    assert_eq!(parts(&client.line("JOB.LIST t"))[2], "claimed", "it reads its own writes");
    let commit = client.line("TXN.COMMIT");
    let token = &commit[1..commit.len() - 4];
    assert_eq!(client.line(&format!("JOB.DONE t a {token}")), text("completed"));
    assert_eq!(client.line(&format!("LOCK.FREE l {token}")), r":1\r\n");
}

#[test]
fn what_is_rolled_back_never_was() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a");
    client.line("TXN.BEGIN");
    client.line("JOB.CLAIM t WORKER w");
    client.line("JOB.SUBMIT t b");
    client.line("TXN.ROLLBACK");
    assert_eq!(client.line("JOB.COUNT t"), r":1\r\n");
    assert_eq!(claim(&mut client, "JOB.CLAIM t WORKER w").id, "a");
}

#[test]
fn a_command_that_fails_inside_exec_does_not_stop_the_others() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a");
    client.line("SET text x");
    client.line("MULTI");
    for line in [
        "JOB.DONE t a 1",
        "INCR text",
        "JOB.SUBMIT t a",
        "JOB.SUBMIT t b",
        "JOB.SUBMIT t c PRIORITY x",
        "CELL.SET cell 1",
        "JOB.COUNT t",
    ] {
        assert_eq!(client.line(line), r"+QUEUED\r\n", "{line}");
    }
    let reply = client.line("EXEC");
    let parts = parts(&reply);
    assert!(parts[0].starts_with("-FENCED "), "{reply}");
    assert!(parts[1].starts_with("-ERR value is not an integer"), "{reply}");
    assert!(parts[2].starts_with("-EXISTS "), "{reply}");
    assert_eq!(parts[3], "pending");
    assert!(parts[4].starts_with("-ERR value is not an integer"), "{reply}");
    assert_eq!(parts[5..], ["1", "2"], "{reply}");
}

#[test]
fn what_was_watched_and_has_changed_lets_nothing_happen() {
    let ours = Ours::start();
    let (mut client, mut other) = (ours.client(), ours.client());
    for (changes, wanted) in [(true, r"*-1\r\n"), (false, r"*1\r\n$7\r\npending\r\n")] {
        client.line("WATCH a");
        if changes {
            other.line("SET a 1");
        }
        client.line("MULTI");
        client.line("JOB.SUBMIT t a");
        assert_eq!(client.line("EXEC"), wanted);
    }
}

#[test]
fn nothing_waits_inside_a_transaction() {
    let ours = Ours::start();
    let mut client = ours.client();
    let waits = "JOB.CLAIM t WORKER w WAIT 10";
    client.line("MULTI");
    assert_eq!(client.line(waits), r"-ERR waiting is not for inside a transaction\r\n");
    assert!(client.line("EXEC").starts_with("-EXECABORT "));
    client.line("TXN.BEGIN");
    assert_eq!(client.line(waits), r"-ERR waiting is not for inside a transaction\r\n");
    assert_eq!(client.line("JOB.CLAIM t WORKER w WAIT 0"), r"$-1\r\n");
    for line in ["JOB.SWEEP", "JOB.RESULT t a"] {
        assert!(client.line(line).starts_with("-ERR "), "{line}");
    }
    client.line("TXN.ROLLBACK");
    client.line("MULTI");
    assert!(client.line("JOB.SWEEP").starts_with("-ERR JOB.SWEEP is not for inside MULTI"));
}

#[test]
fn counters_inside_exec_are_the_final_ones() {
    let ours = Ours::start();
    std::thread::scope(|scope| {
        let ours = &ours;
        let beside = scope.spawn(move || {
            let mut client = ours.client();
            (0..500).for_each(|_| drop(client.line("CELL.SET shared x")));
        });
        let mut client = ours.client();
        let mut last = 0;
        for n in 0..30 {
            client.line("MULTI");
            client.line("CELL.SET shared mine");
            client.line(&format!("JOB.SUBMIT t {n}"));
            client.line("CELL.GETV shared REV 0");
            let counter: u64 = parts(&client.line("EXEC"))[0].parse().unwrap();
            let history = ours.db.cells().history("shared", 2000, None).unwrap();
            let version = history.iter().find(|version| version.counter == counter).unwrap();
            assert_eq!(version.value, Some("mine".into()), "{counter}");
            assert!(counter > last);
            last = counter;
        }
        beside.join().unwrap();
    });
}
