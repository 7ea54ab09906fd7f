//! What a session's client has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What the client of a session has done so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Figures { $($(#[$doc])* pub $name: u64,)* }

        /// Counts on the way.
        #[derive(Default)]
        pub(crate) struct Tally { $(pub $name: AtomicU64,)* }

        impl Tally {
            pub fn figures(&self) -> Figures {
                Figures { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl std::ops::Add for Figures {
            type Output = Figures;

            fn add(self, other: Figures) -> Figures {
                Figures { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

figures! {
    /// Requests that got a number.
    requests,
    /// Requests that got their answer, be it an error.
    answered,
    /// Attempts beyond the first ones.
    retries,
    /// Attempts that ended without anybody knowing what they did.
    unknown,
    /// Answers of requests that an earlier attempt had executed.
    repeated,
    /// Requests that were given up, or lost with their session.
    given_up,
    /// How often it said that it is there.
    keep_alives,
    /// How often the session was opened.
    openings,
    /// Requests of the server that were handled.
    letters,
    /// How often handling one failed.
    letters_failed,
    /// How often one was brought again that was handled before.
    letters_repeated,
}

pub(crate) fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}
