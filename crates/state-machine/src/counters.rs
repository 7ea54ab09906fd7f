//! Counters of a machine's operations.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since the machine's creation. They are part of the replicated state, equal on every
        /// replica.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// The number of counters.
            pub(super) const COUNT: usize = [$(stringify!($name)),*].len();

            /// Converts to the array in a snapshot.
            pub(super) fn to_array(self) -> [u64; Counters::COUNT] {
                [$(self.$name),*]
            }

            /// Converts from the array in a snapshot.
            pub(super) fn from_array([$($name),*]: [u64; Counters::COUNT]) -> Counters {
                Counters { $($name),* }
            }
        }
    };
}

counters! {
    /// Sessions opened.
    opened,
    /// Sessions that expired, or were ended by `Expire`.
    expired,
    /// Sessions that their clients closed.
    closed,
    /// Requests executed, including aborted ones.
    executed,
    /// Requests aborted.
    aborted,
    /// Requests answered with a stored reply.
    repeated,
    /// Requests refused because their response was evicted.
    too_late,
    /// Requests, keep-alives and acknowledgements for sessions that do not exist.
    strangers,
    /// Responses evicted, because the client received them or because of the limits.
    evicted,
    /// Internal commands executed, including aborted ones.
    internal,
    /// Requests to clients that were added to a mailbox.
    sent,
    /// Requests to clients of sessions that do not exist.
    dropped,
    /// Requests to clients that were acknowledged.
    acknowledged,
    /// Requests to clients that were resent.
    retried,
    /// Calls of `session_created` and `session_expired` that failed.
    hooks_failed,
}
