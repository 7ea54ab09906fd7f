//! Counters of a session's client.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a session's client.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Figures { $($(#[$doc])* pub $name: u64,)* }

        /// Atomic counters behind [`Figures`].
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
    /// Letters that were handled.
    letters,
    /// Failed calls of the letter handler.
    letters_failed,
    /// Redelivered letters that had been handled before.
    letters_repeated,
}

pub(crate) fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}
