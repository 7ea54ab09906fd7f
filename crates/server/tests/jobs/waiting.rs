//! Waiting claims: woken by other clients and by the clock, and removed completely when the client leaves.

use crate::speaker::{Claimed, claim, claimed, text};
use crate::support::Ours;
use mainstay::{Clock, SystemClock};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const WAITS: &str = "JOB.CLAIM t WORKER w WAIT 60000";

/// Waits until `count` commands are waiting for other clients.
fn until_waiting(ours: &Ours, count: u64) {
    let mut client = ours.client();
    let wanted = format!("blocked_clients:{count}\\r\\n");
    while !client.line("INFO clients").contains(&wanted) {
        thread::yield_now();
    }
}

fn now_ms() -> u64 {
    SystemClock::new().wall_us() / 1000
}

#[test]
fn a_waiting_claim_is_woken_by_a_submission() {
    let ours = Ours::start();
    let mut worker = ours.client();
    let mut client = ours.client();
    worker.send(&WAITS.split(' ').collect::<Vec<_>>());
    until_waiting(&ours, 1);
    // Unrelated changes wake no waiting claim.
    client.line("SET a 1");
    client.line("JOB.SUBMIT other a");
    client.line("JOB.SUBMIT t a DATA x");
    let got = claimed(&worker.receive()).unwrap();
    assert_eq!((got.id.as_str(), got.data.as_deref()), ("a", Some("x")));
    until_waiting(&ours, 0);
    assert_eq!(worker.line("PING"), r"+PONG\r\n");
}

#[test]
fn a_waiting_claim_is_woken_by_the_time_of_a_job() {
    let ours = Ours::start();
    let mut client = ours.client();
    let due = now_ms() + 300;
    client.line(&format!("JOB.SUBMIT t a RUNAT {due}"));
    let got = claim(&mut client, WAITS);
    assert_eq!(got.id, "a");
    assert!(now_ms() >= due, "not before its time");
    client.line(&format!("JOB.FAIL t a {} no RETRY AFTER 200", got.token));
    assert!(claim(&mut client, WAITS).token > got.token);
}

#[test]
fn a_waiting_claim_is_woken_by_a_sweep_and_by_what_it_depends_on() {
    let ours = Ours::start();
    let mut worker = ours.client();
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a");
    claim(&mut client, "JOB.CLAIM t WORKER silent LEASE 1");
    worker.send(&WAITS.split(' ').collect::<Vec<_>>());
    until_waiting(&ours, 1);
    while client.line("JOB.SWEEP") != r"*2\r\n:1\r\n:0\r\n" {}
    let got = claimed(&worker.receive()).unwrap();
    client.line("JOB.SUBMIT t b DEPENDS a");
    let mut second = ours.client();
    second.send(&WAITS.split(' ').collect::<Vec<_>>());
    until_waiting(&ours, 1);
    assert_eq!(worker.line(&format!("JOB.DONE t a {}", got.token)), text("completed"));
    assert_eq!(claimed(&second.receive()).unwrap().id, "b");
}

#[test]
fn a_wait_in_vain_ends_with_nil() {
    let ours = Ours::start();
    assert_eq!(ours.client().line("JOB.CLAIM t WORKER w WAIT 20"), r"$-1\r\n");
    assert_eq!(ours.client().line("JOB.CLAIM t WORKER w WAIT 0"), r"$-1\r\n");
}

#[test]
fn whoever_hangs_up_while_waiting_claims_nothing() {
    let ours = Ours::start();
    let mut gone = ours.client();
    gone.send(&WAITS.split(' ').collect::<Vec<_>>());
    until_waiting(&ours, 1);
    drop(gone);
    until_waiting(&ours, 0);
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a");
    assert_eq!(client.line("JOB.COUNT t STATE pending"), r":1\r\n");
    assert_eq!(claim(&mut client, "JOB.CLAIM t WORKER w").id, "a");
}

#[test]
fn a_server_that_stops_tells_those_who_wait() {
    let mut ours = Ours::start();
    let mut worker = ours.client();
    worker.send(&WAITS.split(' ').collect::<Vec<_>>());
    until_waiting(&ours, 1);
    ours.stop();
    assert_eq!(worker.receive(), r"$-1\r\n");
    assert!(worker.is_closed());
}

#[test]
fn what_comes_behind_a_waiting_claim_is_answered_behind_it() {
    let ours = Ours::start();
    let mut worker = ours.client();
    worker.send(&WAITS.split(' ').collect::<Vec<_>>());
    worker.send(&["PING"]);
    until_waiting(&ours, 1);
    ours.client().line("JOB.SUBMIT t a");
    assert_eq!(claimed(&worker.receive()).unwrap().id, "a");
    assert_eq!(worker.receive(), r"+PONG\r\n");
}

#[test]
fn a_pipeline_of_orders_is_answered_in_order() {
    let ours = Ours::start();
    let mut client = ours.client();
    for n in 0..50 {
        client.send(&["JOB.SUBMIT", "t", &format!("{n:02}")]);
        client.send(&["JOB.CLAIM", "t", "WORKER", "w"]);
        client.send(&["INCR", "count"]);
    }
    for n in 0..50 {
        assert_eq!(client.receive(), text("pending"));
        assert_eq!(claimed(&client.receive()).unwrap().id, format!("{n:02}"));
        assert_eq!(client.receive(), format!(r":{}\r\n", n + 1));
    }
}

/// Claims and completes jobs until none comes for a while. Returns the claimed jobs.
fn work(ours: &Ours, worker: usize, wait: bool) -> Vec<Claimed> {
    let mut client = ours.client();
    let mut got = Vec::new();
    let wait = if wait { " WAIT 300" } else { "" };
    while let Some(one) = claimed(&client.line(&format!("JOB.CLAIM t WORKER w{worker}{wait}"))) {
        let done = client.line(&format!("JOB.DONE t {} {}", one.id, one.token));
        assert_eq!(done, text("completed"));
        got.push(one);
    }
    got
}

#[test]
fn of_many_workers_each_job_is_claimed_by_one() {
    let ours = Ours::start();
    let mut client = ours.client();
    for n in 0..200 {
        client.line(&format!("JOB.SUBMIT t {n}"));
    }
    let all = thread::scope(|scope| {
        let ours = &ours;
        let workers: Vec<_> = (0..16).map(|n| scope.spawn(move || work(ours, n, true))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    let ids: BTreeSet<_> = all.iter().map(|one| one.id.clone()).collect();
    assert_eq!((all.len(), ids.len()), (200, 200));
    assert_eq!(client.line("JOB.COUNT t STATE completed"), r":200\r\n");
}

#[test]
fn claims_of_many_connections_share_the_writes_of_the_log() {
    let ours = Ours::with(mainstay_server::resp::Settings {
        loops: 1,
        durability: mainstay::Durability::Sync,
        ..Default::default()
    });
    let mut clients: Vec<_> = (0..64).map(|_| ours.client()).collect();
    for n in 0..256 {
        clients[0].line(&format!("JOB.SUBMIT t {n}"));
    }
    // A large write is always in progress, so that an fsync takes long.
    let done = AtomicBool::new(false);
    let large = mainstay::Value::Bytes(vec![7; 4 << 20]);
    let syncs = thread::scope(|scope| {
        let write = || {
            while !done.load(Ordering::Relaxed) {
                ours.db.cells().set("large", large.clone()).unwrap();
            }
        };
        scope.spawn(write);
        let before = ours.db.stats().sync_us.count();
        for _ in 0..4 {
            clients.iter_mut().for_each(|client| client.send(&["JOB.CLAIM", "t", "WORKER", "w"]));
            clients.iter_mut().for_each(|client| drop(claimed(&client.receive()).unwrap()));
        }
        done.store(true, Ordering::Relaxed);
        ours.db.stats().sync_us.count() - before
    });
    assert!(syncs < 200, "{syncs} syncs for 256 claims");
}
