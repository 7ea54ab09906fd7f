//! Settings of a client, each with its limits.

use crate::failure;
use mainstay::{KEPT_LIMIT, Result};
use std::time::Duration;

/// Upper limit for [`Settings::window`], and for the distance between the lowest unanswered number and the
/// next one. A database stores that many responses per session, so no awaited response is evicted for lack
/// of room.
pub const WINDOW_LIMIT: usize = KEPT_LIMIT;

/// Settings of a client.
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
    /// Maximum number of requests in flight per session. Further requests wait. Default: 64.
    pub window: usize,
    /// How long a request is retried before its caller gets an error; `None`: without limit. Default: 60 s.
    pub deadline: Option<Duration>,
    /// Timeout of one attempt. Default: 10 s.
    pub attempt: Duration,
    /// Pause after the first failed attempt. It doubles with each further one. Default: 10 ms.
    pub first_pause: Duration,
    /// Maximum pause. Default: 2 s.
    pub longest_pause: Duration,
    /// Whether an idle session is kept alive by a message after each third of its lease. Default: true.
    pub keeps_alive: bool,
    /// Seed of the jitter in pauses; `None`: random.
    pub seed: Option<u64>,
    /// An injected fault, for tests.
    #[cfg(feature = "planted-faults")]
    pub injected_fault: Option<crate::ClientFault>,
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
            injected_fault: None,
        }
    }
}

impl Settings {
    /// Validates the settings. Fails with `InvalidArgument`.
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
