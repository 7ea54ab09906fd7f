//! Open files: every connection is one, and the database needs some, too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the database, the listeners and the logs may have open beside the connections.
const OWN: u64 = 512;

/// Raises the number of files this process may have open as far as the system lets it. Says so where
/// that is not enough for so many connections.
pub fn make_room(connections: usize) -> Option<String> {
    let wanted = (connections as u64).saturating_add(OWN);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return None;
    }
    let reachable = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum });
    let now = if raised.is_ok() { reachable } else { current.unwrap_or(wanted) };
    (now < wanted).then(|| {
        format!(
            "this process may have {now} files open, which is too few for {connections} connections: \
             further ones will wait; raise the limit (ulimit -n, LimitNOFILE) to {wanted}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_system_gives_is_told_and_less_is_not() {
        assert_eq!(make_room(1), None);
        let Some(maximum) = getrlimit(Resource::Nofile).maximum else { return };
        let told = make_room(usize::try_from(maximum).unwrap_or(usize::MAX)).unwrap();
        assert!(told.contains("LimitNOFILE"), "{told}");
        assert_eq!(getrlimit(Resource::Nofile).current, Some(maximum));
    }
}
