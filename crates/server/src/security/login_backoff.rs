//! Login back-off: counts wrong passwords per user and address, and delays further attempts after too many.
//!
//! ```text
//!   attempt --> (user, address) is delayed? --yes--> rejected at once, no password is verified
//!           --> address is delayed?         --yes--> the same
//!           --> verified --wrong--> both counts grow; beyond its limit the delay doubles, up to a maximum
//!                        --right--> the count of (user, address) is removed
//! ```
//!
//! Users are not counted alone. Otherwise a flood of guesses from one address would lock the user out at
//! all other addresses. Unknown user names are counted like others, so that an attacker cannot find out
//! which users exist.

use super::settings::Settings;
use hashbrown::HashMap;
use mainstay::{Clock, SystemClock};
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most counts that are kept. Beyond it, the count with the oldest failure is removed.
const COUNTS: usize = 10_000;

/// A count is kept for this long after the end of its delay, so that a slow attack is still counted.
const KEPT_US: u64 = 900_000_000;

/// The prefix length of an IPv6 network that belongs to one client, which can choose the remaining bits.
const CLIENT_BITS: u32 = 64;

/// The key of a count: a user at an address, or an address.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    address: Option<IpAddr>,
    /// A hash of the name, because clients choose the length of names. `None` for the count of the address.
    user: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    failures: u32,
    last_us: u64,
    waits_until_us: u64,
}

pub(super) struct LoginBackoff {
    failures_per_user: u32,
    failures_per_address: u32,
    wait_us: u64,
    wait_limit_us: u64,
    clock: Arc<dyn Clock>,
    hasher: RandomState,
    counts: Mutex<HashMap<Key, Count>>,
    failures: AtomicU64,
    refusals: AtomicU64,
}

impl LoginBackoff {
    pub fn new(settings: &Settings) -> LoginBackoff {
        LoginBackoff::with_clock(settings, Arc::new(SystemClock::new()))
    }

    fn with_clock(settings: &Settings, clock: Arc<dyn Clock>) -> LoginBackoff {
        LoginBackoff {
            failures_per_user: settings.failures_per_user_and_address,
            failures_per_address: settings.failures_per_address,
            wait_us: settings.failure_wait_ms.saturating_mul(1000),
            wait_limit_us: settings.failure_wait_limit_ms.saturating_mul(1000),
            clock,
            hasher: RandomState::new(),
            counts: Mutex::default(),
            failures: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// Returns the delay for this user at this address, in milliseconds; `None` without a delay.
    pub fn wait_ms(&self, user: &str, peer: &str) -> Option<u64> {
        let now_us = self.clock.monotonic_us();
        let counts = self.counts.lock();
        let waits_us = |key: &Key| {
            counts.get(key).map_or(0, |count| count.waits_until_us.saturating_sub(now_us))
        };
        let wait_us = self.keys(user, peer).iter().map(waits_us).max().unwrap_or(0);
        if wait_us == 0 {
            return None;
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        Some(wait_us.div_ceil(1000))
    }

    /// Records a wrong password.
    pub fn failed(&self, user: &str, peer: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let now_us = self.clock.monotonic_us();
        let [pair, address] = self.keys(user, peer);
        let mut counts = self.counts.lock();
        for (key, limit) in [(pair, self.failures_per_user), (address, self.failures_per_address)] {
            make_room(&mut counts, &key, now_us);
            let count = counts.entry(key).or_default();
            // One failure is forgiven per maximum delay. Slow failures therefore never add up, because one
            // address may have many clients behind it.
            let forgiven = now_us.saturating_sub(count.last_us) / self.wait_limit_us.max(1);
            let forgiven = u32::try_from(forgiven).unwrap_or(u32::MAX);
            count.failures = count.failures.saturating_sub(forgiven).saturating_add(1);
            count.last_us = now_us;
            count.waits_until_us = now_us + self.wait_after(count.failures, limit);
        }
    }

    /// Records a right password.
    pub fn succeeded(&self, user: &str, peer: &str) {
        let [pair, _] = self.keys(user, peer);
        self.counts.lock().remove(&pair);
    }

    /// Returns the delay after this many failures, in microseconds.
    fn wait_after(&self, failures: u32, limit: u32) -> u64 {
        let Some(beyond) = failures.checked_sub(limit) else { return 0 };
        let wait_us = self.wait_us.saturating_mul(1 << beyond.min(40));
        wait_us.min(self.wait_limit_us)
    }

    /// Returns the key of the user at this address, and that of the address.
    fn keys(&self, user: &str, peer: &str) -> [Key; 2] {
        let address = peer.parse().ok().map(|peer: SocketAddr| client_of(peer.ip()));
        let user = Some(self.hasher.hash_one(user));
        [Key { address, user }, Key { address, user: None }]
    }

    /// Returns the number of wrong passwords.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the number of attempts rejected without verifying the password.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }
}

/// Returns the part of an address that a client cannot choose.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> CLIENT_BITS << CLIENT_BITS;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

/// Removes expired counts. If that is not enough, removes the oldest one.
fn make_room(counts: &mut HashMap<Key, Count>, key: &Key, now_us: u64) {
    if counts.len() < COUNTS || counts.contains_key(key) {
        return;
    }
    counts.retain(|_, count| now_us < count.waits_until_us.max(count.last_us) + KEPT_US);
    if counts.len() >= COUNTS
        && let Some(oldest) = counts.iter().min_by_key(|(_, count)| count.last_us)
    {
        let oldest = oldest.0.clone();
        counts.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::ManualClock;
    use std::time::Duration;

    fn backoff() -> (LoginBackoff, Arc<ManualClock>) {
        let clock = ManualClock::new(1_000_000);
        let settings = Settings {
            failures_per_user_and_address: 3,
            failures_per_address: 8,
            failure_wait_ms: 1000,
            failure_wait_limit_ms: 5000,
            ..Settings::default()
        };
        (LoginBackoff::with_clock(&settings, clock.clone()), clock)
    }

    #[test]
    fn the_wait_doubles_up_to_its_limit_and_ends() {
        let (backoff, clock) = backoff();
        let here = "10.0.0.7:1000";
        let mut waits = Vec::new();
        for _ in 0..7 {
            backoff.failed("a", here);
            waits.push(backoff.wait_ms("a", here).unwrap_or(0));
        }
        assert_eq!(waits, [0, 0, 1000, 2000, 4000, 5000, 5000]);
        clock.advance(Duration::from_secs(5));
        assert_eq!(backoff.wait_ms("a", here), None);
        backoff.succeeded("a", here);
        backoff.failed("a", "10.0.0.7:2000");
        assert_eq!((backoff.failures(), backoff.refusals()), (8, 5));
    }

    #[test]
    fn other_addresses_and_other_users_do_not_wait() {
        let (backoff, _) = backoff();
        (0..5).for_each(|_| backoff.failed("a", "10.0.0.7:1000"));
        assert!(backoff.wait_ms("a", "10.0.0.7:2000").is_some(), "from another port");
        assert!(backoff.wait_ms("a", "[::ffff:10.0.0.7]:1").is_some(), "written another way");
        assert_eq!(backoff.wait_ms("a", "10.0.0.8:1000"), None);
        assert_eq!(backoff.wait_ms("b", "10.0.0.7:1000"), None);
        (0..5).for_each(|_| backoff.failed("a", "[2001:db8::1]:1"));
        assert!(backoff.wait_ms("a", "[2001:db8::2]:1").is_some(), "the client chooses the rest");
        assert_eq!(backoff.wait_ms("a", "[2001:db8:0:1::2]:1"), None);
    }

    #[test]
    fn an_address_that_tries_many_names_waits_with_all_of_them() {
        let (backoff, _) = backoff();
        (0..8).for_each(|name| backoff.failed(&name.to_string(), "10.0.0.7:1000"));
        assert!(backoff.wait_ms("new", "10.0.0.7:1000").is_some());
        assert_eq!(backoff.wait_ms("new", "10.0.0.8:1000"), None);
    }

    /// A client that guesses now and then must not delay other clients behind the same address.
    #[test]
    fn failures_far_apart_do_not_add_up() {
        let (backoff, clock) = backoff();
        for name in 0..100 {
            backoff.failed(&name.to_string(), "10.0.0.7:1000");
            assert_eq!(backoff.wait_ms("honest", "10.0.0.7:1000"), None, "{name}");
            clock.advance(Duration::from_secs(5));
        }
    }

    #[test]
    fn counts_are_bounded_and_the_oldest_goes_first() {
        let (backoff, clock) = backoff();
        (0..4).for_each(|_| backoff.failed("a", "10.0.0.7:1"));
        for name in 0..(COUNTS + 100) {
            clock.advance(Duration::from_micros(1));
            backoff.failed(&name.to_string(), "10.0.0.8:1");
        }
        assert_eq!(backoff.counts.lock().len(), COUNTS);
        assert_eq!(backoff.wait_ms("a", "10.0.0.7:1"), None, "it was forgotten");
        let newest = (COUNTS + 99).to_string();
        assert!(backoff.wait_ms(&newest, "10.0.0.8:1").is_some());
    }
}
