//! Quotas: the part of a bounded resource that one user may hold, so that other users always get some.
//!
//! ```text
//!   resp.connections = 10,000, security.user_share_percent = 50 --> 5,000 connections for each user
//! ```
//!
//! On a server with one user or without users, the user gets everything.

use super::User;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A resource of limited number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Connections of Redis clients.
    RespConnections,
    /// Connections over HTTP.
    HttpConnections,
    /// Feed readers of Redis clients.
    RespFeedReaders,
    /// Feed readers over HTTP.
    HttpFeedReaders,
    /// Open sessions.
    Sessions,
}

/// All resources: the name, and the setting that limits it, if one does.
const RESOURCES: [(Resource, &str, &str); 5] = [
    (Resource::RespConnections, "connections", "resp.connections"),
    (Resource::HttpConnections, "connections", "http.connections"),
    (Resource::RespFeedReaders, "feed readers", "resp.feed_readers"),
    (Resource::HttpFeedReaders, "feed readers", "http.feed_readers"),
    (Resource::Sessions, "sessions", ""),
];

/// The number of each resource that a user holds, and its share in percent.
#[derive(Debug)]
pub(super) struct Held {
    percent: usize,
    counts: [AtomicUsize; RESOURCES.len()],
}

impl Held {
    /// Creates a table with nothing held and a share of `percent`.
    pub fn new(percent: u32) -> Held {
        Held { percent: percent as usize, counts: Default::default() }
    }

    /// Returns the part of a limit that one user may hold, which is at least one.
    pub fn share_of(&self, limit: usize) -> usize {
        (limit.saturating_mul(self.percent) / 100).max(1)
    }
}

/// A counted unit of a resource, released on drop.
#[derive(Debug)]
pub struct Share {
    user: Arc<User>,
    resource: Resource,
}

impl Share {
    /// Returns whether this user holds it.
    pub fn is_of(&self, user: &Arc<User>) -> bool {
        Arc::ptr_eq(&self.user, user)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.user.held.counts[self.resource as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error for a user that already holds its share.
#[derive(Debug, PartialEq, Eq)]
pub struct ShareExhausted {
    user: String,
    resource: Resource,
    share: usize,
    limit: usize,
}

impl ShareExhausted {
    /// Creates the error for a user and a resource that is limited to `limit` in total.
    pub(super) fn new(user: &User, resource: Resource, limit: usize) -> ShareExhausted {
        ShareExhausted {
            user: user.name().to_owned(),
            resource,
            share: user.share_of(limit),
            limit,
        }
    }
}

impl fmt::Display for ShareExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShareExhausted { user, resource, share, limit } = self;
        let (_, name, setting) = RESOURCES[*resource as usize];
        // Some resources have a limit that no setting raises.
        let or = if setting.is_empty() { "" } else { " or " };
        write!(
            f,
            "the user {user} has {share} {name}, as many as one user may of {limit}: try later, or raise \
             {setting}{or}security.user_share_percent"
        )
    }
}

impl User {
    /// Takes one unit of a resource that is limited to `limit` in total.
    pub fn share(
        self: &Arc<User>,
        resource: Resource,
        limit: usize,
    ) -> Result<Share, ShareExhausted> {
        let share = self.share_of(limit);
        let more = |held: usize| (held < share).then_some(held + 1);
        let count = &self.held.counts[resource as usize];
        match count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Share { user: self.clone(), resource }),
            Err(_) => Err(ShareExhausted::new(self, resource, limit)),
        }
    }

    /// Returns the part of a limit that belongs to one user.
    pub fn share_of(&self, limit: usize) -> usize {
        self.held.share_of(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_stand_in_the_order_of_their_numbers() {
        for (place, (resource, ..)) in RESOURCES.into_iter().enumerate() {
            assert_eq!(resource as usize, place);
        }
    }

    #[test]
    fn a_share_is_a_part_and_at_least_one() {
        let shares = |percent, limit| Held::new(percent).share_of(limit);
        assert_eq!((shares(50, 10), shares(50, 1), shares(1, 10), shares(100, 7)), (5, 1, 1, 7));
    }

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let user = Arc::new(User::everybody());
        let take = || user.share(Resource::RespFeedReaders, 2);
        let one = take().unwrap();
        let two = take().unwrap();
        let error = take().unwrap_err().to_string();
        assert!(
            error.contains("resp.feed_readers") && error.contains("user_share_percent"),
            "{error}"
        );
        assert!(user.share(Resource::HttpFeedReaders, 2).is_ok(), "another resource");
        drop(one);
        assert!(take().is_ok() && take().is_ok(), "each was given back");
        drop(two);
    }
}
