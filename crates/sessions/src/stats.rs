//! Counters of a session's client.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a session's client.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct ClientStats { $($(#[$doc])* pub $name: u64,)* }

        /// Atomic counters behind [`ClientStats`].
        #[derive(Default)]
        pub(crate) struct Counters { $(pub $name: AtomicU64,)* }

        impl Counters {
            pub fn stats(&self) -> ClientStats {
                ClientStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl std::ops::Add for ClientStats {
            type Output = ClientStats;

            fn add(self, other: ClientStats) -> ClientStats {
                ClientStats { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

stats! {
    /// Requests that were assigned a number.
    requests,
    /// Requests that were answered, including with an error.
    answered,
    /// Attempts after the first one.
    retries,
    /// Attempts with an unknown outcome.
    unknown,
    /// Answers of requests that an earlier attempt had executed.
    repeated,
    /// Requests that were given up, or lost with their session.
    given_up,
    /// Keep-alives that were answered.
    keep_alives,
    /// Openings of the session.
    openings,
    /// Server messages that were handled.
    messages,
    /// Failed calls of the server message handler.
    messages_failed,
    /// Redelivered server messages that had been handled before.
    messages_repeated,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
