//! How a client behaves; every number has a limit.

use crate::failure;
use mainstay::{KEPT_LIMIT, Result};
use std::time::Duration;

/// The most requests of one session that may be under way at once, and the furthest that numbers run ahead of the lowest
/// one without an answer. A database keeps as many responses: so none that is waited for goes because there are too many.
pub const WINDOW_LIMIT: usize = KEPT_LIMIT;

/// How a client behaves.
///
/// ```
/// use mainstay_sessions::Settings;
/// use std::time::Duration;
/// let settings = Settings { deadline: Some(Duration::from_secs(5)), ..Settings::default() };
/// assert!(settings.check().is_ok());
/// assert!(Settings { window: 0, ..settings }.check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many requests of a session may be under way at once; a further one waits. Default: 64.
    pub window: usize,
    /// How long a request is tried for before its caller is told that there is no answer; nothing: for ever.
    /// Default: 60 s.
    pub deadline: Option<Duration>,
    /// How long one attempt may stay without an answer before the next one is made. Default: 10 s.
    pub attempt: Duration,
    /// The pause after the first attempt that failed; each further one is twice as long. Default: 10 ms.
    pub first_pause: Duration,
    /// The longest pause. Default: 2 s.
    pub longest_pause: Duration,
    /// Whether a session that is idle is kept alive, a third of its lease after its last word. Default: it is.
    pub keeps_alive: bool,
    /// Where the chance in pauses comes from; nothing: from somewhere else each time.
    pub seed: Option<u64>,
    /// A bug on purpose.
    #[cfg(feature = "planted-faults")]
    pub planted: Option<crate::Planted>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            window: 64,
            deadline: Some(Duration::from_secs(60)),
            attempt: Duration::from_secs(10),
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_secs(2),
            keeps_alive: true,
            seed: None,
            #[cfg(feature = "planted-faults")]
            planted: None,
        }
    }
}

impl Settings {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        if !(1..=WINDOW_LIMIT).contains(&self.window) {
            let message = format!("a window has 1 to {WINDOW_LIMIT} requests, not {}", self.window);
            return Err(failure::invalid(message));
        }
        if self.attempt.is_zero() {
            return Err(failure::invalid("an attempt without any time never has an answer"));
        }
        if self.first_pause > self.longest_pause {
            return Err(failure::invalid("the first pause is longer than the longest"));
        }
        Ok(())
    }
}
