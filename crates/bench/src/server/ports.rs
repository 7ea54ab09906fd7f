//! Free ports for the servers.

use crate::context::Outcome;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range of ephemeral ports: a client that connects to a port of that range before a server
/// listens there can be connected to itself.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port on which no process listens; a different one on each call.
pub fn free() -> Outcome<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Two concurrent benchmarks start at different ports.
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    first_free(
        (0..COUNT).map(|_| FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT),
    )
    .ok_or_else(|| {
        format!("no port from {FIRST} on is free for a server: stop what listens there").into()
    })
}

fn first_free(mut ports: impl Iterator<Item = u16>) -> Option<u16> {
    ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let taken = free().unwrap();
        let other = free().unwrap();
        let _listener = TcpListener::bind(("127.0.0.1", taken)).unwrap();
        assert_eq!(first_free([taken, other].into_iter()), Some(other));
        assert_eq!(first_free([taken].into_iter()), None);
    }

    #[test]
    fn ports_differ_and_are_none_that_the_system_hands_out() {
        let ports = [free().unwrap(), free().unwrap()];
        assert_ne!(ports[0], ports[1]);
        assert!(ports.iter().all(|port| (FIRST..FIRST + COUNT).contains(port)));
    }
}
