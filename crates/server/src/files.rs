//! Limits connections to the available file descriptors. Every connection and every feed reader uses one,
//! and the database needs some too. A log that cannot open its next segment becomes read-only, so
//! connections leave it some file descriptors.

use crate::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors reserved for the database, the listeners and the logs.
const OWN: u64 = 512;

/// Returns the settings with no more connections and readers than file descriptors allow. It first raises
/// the limit of the process as far as the system permits.
pub fn fitted(config: &Config) -> Config {
    let mut config = config.clone();
    let wanted: u64 = others(&mut config).map(|number| *number as u64).iter().sum();
    if let Some(there) = short_of(wanted) {
        for number in others(&mut config) {
            *number = share(*number as u64, wanted, there);
        }
        let resp = config.resp.connections;
        let http = config.http.connections;
        tracing::warn!(
            resp,
            http,
            "this process may not have open as many files as its settings ask for, so it takes fewer \
             connections: raise the limit (ulimit -n, LimitNOFILE) to {}",
            wanted.saturating_add(OWN)
        );
    }
    config
}

/// Returns all limits of which each unit uses one file descriptor.
fn others(config: &mut Config) -> [&mut usize; 4] {
    let Config { resp, http, .. } = config;
    [&mut resp.connections, &mut resp.feed_readers, &mut http.connections, &mut http.feed_readers]
}

/// Returns how many file descriptors are left for connections and readers, if that is fewer than wanted.
fn short_of(wanted: u64) -> Option<u64> {
    let all = wanted.saturating_add(OWN);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= all) {
        return None;
    }
    let reachable = maximum.map_or(all, |maximum| maximum.min(all));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum });
    let now = if raised.is_ok() { reachable } else { current.unwrap_or(all) };
    (now < all).then(|| left(now))
}

/// Returns the number that the database leaves over: half, if the total is very small.
fn left(files: u64) -> u64 {
    files.saturating_sub(OWN).max(files / 2)
}

fn share(number: u64, wanted: u64, there: u64) -> usize {
    let part = u128::from(number) * u128::from(there) / u128::from(wanted.max(1));
    usize::try_from(part).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_system_gives_the_database_has_its_part() {
        assert_eq!(left(20_000), 20_000 - OWN);
        assert_eq!((left(600), left(64)), (300, 32));
        let parts: usize = [10_000, 1024, 4096, 1024].map(|n| share(n, 16_144, 32)).iter().sum();
        assert!(parts <= 32 + 1, "{parts}");
        assert_eq!(share(1, 1_000_000, 10), 1);
    }

    #[test]
    fn what_fits_is_left_alone_and_what_does_not_is_made_to() {
        let mut few = Config::default();
        others(&mut few).into_iter().for_each(|number| *number = 1);
        assert_eq!(fitted(&few), few);
        let Some(maximum) = getrlimit(Resource::Nofile).maximum else { return };
        let mut many = few.clone();
        many.resp.connections = usize::try_from(maximum).unwrap_or(usize::MAX);
        assert!(fitted(&many).resp.connections < many.resp.connections);
    }
}
