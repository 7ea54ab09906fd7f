//! The session client on a server, also over broken connections. Every request is executed once.

use crate::proxy::Proxy;
use crate::session_fixture::{Teller, quick};
use crate::support::Ours;
use mainstay::remote::{self, wait};
use mainstay_sessions::{Client, Faults, Faulty, Served};
use std::thread;
use std::time::Duration;

#[test]
fn requests_and_letters_go_over_the_wire() {
    let server = Ours::start();
    let db = wait(remote::connect_async(&server.address.to_string())).unwrap();
    let teller = Teller::open(&Client::served(&db).unwrap(), "a");
    teller.work(20);
    teller.check(&server.db, 20);
    assert_eq!(teller.session.stats().retries, 0);
    assert!(teller.session.close().unwrap());
}

#[test]
fn connections_that_break_change_nothing() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = wait(proxy.options().connect_async()).unwrap();
    let way = Faulty::new(Served::new(&db), Faults::many(17));
    let client = Client::with(way.clone(), quick()).unwrap();
    let tellers = ["a", "b", "c"].map(|name| Teller::open(&client, name));
    thread::scope(|scope| {
        let working = tellers.each_ref().map(|teller| scope.spawn(|| teller.work(40)));
        while !working.iter().all(|one| one.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            proxy.cut();
        }
    });
    wait(way.deliver_delayed());
    tellers.iter().for_each(|teller| teller.check(&server.db, 40));
}
