//! Jobs and locks inside `MULTI` and `TXN`: atomic with all other commands.

use crate::speaker::{claim, parts, text};
use crate::support::{Client, Ours};
use mainstay_server::resp::Settings;

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
    let mut client = ours.client();
    let mut other = ours.client();
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

/// Number of concurrent connections.
const WORKERS: usize = 8;
const JOBS: usize = 320;

/// Sends `MULTI`, these lines and `EXEC`.
fn multi(client: &mut Client, lines: &[&str]) -> String {
    client.line("MULTI");
    for line in lines {
        assert_eq!(client.line(line), r"+QUEUED\r\n", "{line}");
    }
    client.line("EXEC")
}

#[test]
fn exec_without_watch_never_conflicts_however_many_claim() {
    // With fsync, a transaction is executed long before it is visible. Retries therefore meet other clients
    // that are further ahead.
    let ours = Ours::with(Settings::default());
    let mut client = ours.client();
    for id in 0..JOBS {
        client.line(&format!("JOB.SUBMIT t {id}"));
    }
    let claimed: Vec<String> = std::thread::scope(|scope| {
        let worker = |number: usize| {
            let mut client = ours.client();
            move || {
                let claim = format!("JOB.CLAIM t WORKER {number}");
                let mut ids = Vec::new();
                let mut round = 0;
                loop {
                    round += 1;
                    let mark = format!("CELL.SET mark/{number} {round}");
                    let done = multi(&mut client, &[&claim, "INCR claims", &mark]);
                    assert!(done.starts_with(r"*3\r\n"), "{done}");
                    // No job is left.
                    if done.starts_with(r"*3\r\n$-1\r\n") {
                        return ids;
                    }
                    let id = parts(&done)[0].clone();
                    let token = parts(&done)[1].clone();
                    let complete = format!("JOB.DONE t {id} {token}");
                    let done = multi(&mut client, &[&complete, "INCR done", "JOB.COUNT t"]);
                    assert!(done.starts_with(r"*3\r\n$9\r\ncompleted\r\n"), "{done}");
                    ids.push(id);
                }
            }
        };
        let workers: Vec<_> = (0..WORKERS).map(|number| scope.spawn(worker(number))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let once: std::collections::BTreeSet<&String> = claimed.iter().collect();
    assert_eq!((claimed.len(), once.len()), (JOBS, JOBS), "each of them once");
    // The last claim of each worker found no job, but increased the counter.
    assert_eq!(client.line("GET claims"), text(&(JOBS + WORKERS).to_string()));
}

#[test]
fn exec_without_watch_never_conflicts_however_many_take_one_lock() {
    let ours = Ours::start();
    let rounds = 40;
    let held = std::thread::scope(|scope| {
        let worker = |number: usize| {
            let mut client = ours.client();
            move || {
                let take = format!("LOCK.TAKE l OWNER {number} LEASE 60000");
                let mut held = 0;
                for _ in 0..rounds {
                    let done = multi(&mut client, &[&take, "INCR tries"]);
                    assert!(done.starts_with(r"*2\r\n"), "{done}");
                    let token = parts(&done)[0].clone();
                    if token != "$-1" {
                        held += 1;
                        let free = format!("LOCK.FREE l {token}");
                        let done = multi(&mut client, &[&free, "INCR freed"]);
                        assert!(done.starts_with(r"*2\r\n:1\r\n"), "it was its own: {done}");
                    }
                }
                held
            }
        };
        let workers: Vec<_> = (0..WORKERS).map(|number| scope.spawn(worker(number))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
    });
    let mut client = ours.client();
    assert_eq!(client.line("GET tries"), text(&(WORKERS * rounds).to_string()));
    assert_eq!(client.line("GET freed"), text(&held.to_string()));
}

/// Answers in `EXEC` are final, also in a queue with job commands: no revision is 0.
#[test]
fn reads_beside_orders_in_exec_tell_what_is_there_afterwards() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a");
    for read in ["CELL.GETV c", "CELL.HISTORY c", "JOB.GET t a", "JOB.HISTORY t a", "REVISION"] {
        let done = multi(&mut client, &["CELL.SET c 1", "JOB.CLAIM t WORKER w", read]);
        let after = client.line(read);
        assert!(done.ends_with(&after), "{read}: {done} and then {after}");
    }
}

/// Regression test: these commands failed at `EXEC`, although the job command was executed.
#[test]
fn what_the_writer_alone_answers_is_refused_beside_jobs() {
    let ours = Ours::start();
    let mut client = ours.client();
    let order = "JOB.SUBMIT t a";
    for alone in ["OUTBOX.STATE", "OUTBOX.CLAIM 1 LEASE 1000", "OUTBOX.DEAD", "SESSION.LIST"] {
        for [first, second] in [[order, alone], [alone, order]] {
            client.line("MULTI");
            assert_eq!(client.line(first), r"+QUEUED\r\n", "{first}");
            let name = second.split(' ').next().unwrap();
            let refused = client.line(second);
            assert!(refused.starts_with(&format!("-ERR {name}: jobs and locks")), "{refused}");
            assert!(client.line("EXEC").starts_with("-EXECABORT"), "{first} {second}");
        }
    }
    assert_eq!(client.line("JOB.GET t a"), r"$-1\r\n");
}
