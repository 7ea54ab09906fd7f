use crate::world::{World, code};
use mainstay::Code;
use mainstay_jobs::Locks;
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(100);

#[test]
fn one_holder_at_a_time_and_tokens_that_only_rise() {
    let world = World::new();
    let locks = Locks::open(&world.db, "mainstay.");
    let first = locks.take("l", "a", LEASE).unwrap().unwrap();
    assert_eq!(locks.take("l", "b", LEASE).unwrap(), None);
    assert_eq!(locks.take("l", "a", LEASE).unwrap(), Some(first), "a lost reply");
    world.pass_ms(99);
    locks.renew("l", first, LEASE).unwrap();
    world.pass_ms(99);
    assert_eq!(locks.holder("l").unwrap().unwrap().owner, "a");
    world.pass_ms(1);
    assert_eq!(code(locks.renew("l", first, LEASE)), Code::Fenced, "its lease is over");
    assert!(!locks.free("l", first).unwrap());
    let second = locks.take("l", "b", LEASE).unwrap().unwrap();
    assert!(second > first);
    assert_eq!(code(locks.renew("l", first, LEASE)), Code::Fenced);
    assert!(!locks.free("l", first).unwrap(), "another has it");
    assert_eq!(locks.holder("l").unwrap().map(|holder| holder.token), Some(second));
    assert!(locks.free("l", second).unwrap());
    assert!(!locks.free("l", second).unwrap());
    assert!(locks.take("l", "a", LEASE).unwrap().unwrap() > second, "over deletion too");
    world.pass_ms(101);
    assert_eq!(locks.holder("l").unwrap(), None, "a lease that nobody renews ends");
    assert_eq!(code(locks.take("m", "a", Duration::ZERO)), Code::InvalidArgument);
}

#[test]
fn of_many_who_wait_each_has_it_alone() {
    let db = mainstay::Database::memory().unwrap();
    let locks = Locks::open(&db, "mainstay.");
    let inside = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for owner in 0..8 {
            let locks = &locks;
            let inside = &inside;
            scope.spawn(move || {
                for _ in 0..20 {
                    let owner = format!("o{owner}");
                    let lease = Duration::from_secs(600);
                    let token = locks.take_within("l", &owner, lease, lease).unwrap().unwrap();
                    // SeqCst: a second thread inside the lock would see the first one.
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    assert!(locks.free("l", token).unwrap());
                }
            });
        }
    });
}

#[test]
fn waiting_for_a_lock_ends_when_its_lease_does() {
    let locks = Locks::open(&mainstay::Database::memory().unwrap(), "x.");
    let first = locks.take("l", "a", LEASE).unwrap().unwrap();
    assert_eq!(locks.take_within("l", "b", LEASE, Duration::from_millis(1)).unwrap(), None);
    let second = locks.take_within("l", "b", LEASE, Duration::from_secs(60)).unwrap();
    assert!(second.unwrap() > first);
}
