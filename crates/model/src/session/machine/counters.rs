//! What has happened so far, in numbers.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What has happened so far, in numbers. They are a part of the state: the same on every replica.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// How many there are.
            pub(super) const COUNT: usize = [$(stringify!($name)),*].len();

            /// As they stand in a snapshot.
            pub(super) fn to_array(self) -> [u64; Counters::COUNT] {
                [$(self.$name),*]
            }

            /// As they stood in a snapshot.
            pub(super) fn from_array([$($name),*]: [u64; Counters::COUNT]) -> Counters {
                Counters { $($name),* }
            }
        }
    };
}

counters! {
    /// Sessions that were opened anew.
    opened,
    /// Sessions that ended because nothing was heard of their clients, or because they were told to.
    expired,
    /// Sessions that their clients closed.
    closed,
    /// Requests that were executed, the aborted ones among them.
    executed,
    /// Requests that were aborted.
    aborted,
    /// Requests that were answered with what was kept.
    repeated,
    /// Requests whose response was gone.
    too_late,
    /// Requests, keep-alives and acknowledgements of sessions that there were not.
    strangers,
    /// Responses that were given up, because the client had them or for want of room.
    evicted,
    /// Internal commands that were executed, the aborted ones among them.
    internal,
    /// Requests to clients that got a number.
    sent,
    /// Requests to sessions that there were not.
    dropped,
    /// Requests to clients that were acknowledged.
    acknowledged,
    /// Requests to clients that were sent again.
    retried,
    /// Functions of the machine that failed when a session was opened or ended.
    hooks_failed,
}
