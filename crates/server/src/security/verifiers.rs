//! A thread pool that verifies passwords, shared by all front ends.
//!
//! ```text
//!   attempt --> [ a bounded queue ] --> a few threads --> done(verdict)
//!        \--full--> Busy, at once
//! ```
//!
//! A flood of login attempts occupies only these threads. Authenticated connections are served as usual,
//! and cached passwords are not verified here.

use super::account::Accounts;
use super::{Outcome, Secret, Settings, User};
use crate::process;
use mainstay::{Code, Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// The result of a login attempt.
#[derive(Debug)]
pub enum Verdict {
    /// The password is right, for this user.
    Known(Arc<User>),
    /// The user does not exist or the password is wrong. The client cannot see which.
    Wrong,
    /// Too many attempts are waiting already.
    Busy,
    /// Too many passwords were wrong before: the client has to wait this many milliseconds.
    Wait(u64),
}

impl Verdict {
    /// Returns the outcome for the audit log.
    pub fn outcome(&self) -> Outcome {
        match self {
            Verdict::Known(_) => Outcome::Done,
            Verdict::Wrong => Outcome::Wrong,
            Verdict::Busy | Verdict::Wait(_) => Outcome::Busy,
        }
    }
}

type Done = Box<dyn FnOnce(Verdict) + Send>;

struct Attempt {
    name: String,
    password: Secret,
    done: Done,
}

/// The handle to the threads, which end when it is dropped.
pub(super) struct Verifiers {
    attempts: SyncSender<Attempt>,
}

impl Verifiers {
    pub fn start(settings: &Settings, accounts: &Arc<Accounts>) -> Result<Verifiers> {
        let (attempts, waiting) = sync_channel(settings.attempts_waiting);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..settings.attempts_at_once.max(1) {
            let waiting = waiting.clone();
            let accounts = accounts.clone();
            let thread = std::thread::Builder::new().name("mainstay-verify".to_owned());
            let started = thread.spawn(move || {
                process::lower_priority();
                verify_all(&waiting, &accounts)
            });
            started.map_err(|error| {
                Error::new(Code::Io, format!("no thread to verify passwords: {error}"))
            })?;
        }
        Ok(Verifiers { attempts })
    }

    pub fn take(&self, name: String, password: Secret, done: Done) {
        let attempt = Attempt { name, password, done };
        if let Err(error) = self.attempts.try_send(attempt) {
            let (TrySendError::Full(attempt) | TrySendError::Disconnected(attempt)) = error;
            (attempt.done)(Verdict::Busy);
        }
    }
}

fn verify_all(waiting: &Mutex<Receiver<Attempt>>, accounts: &Accounts) {
    loop {
        let attempt = waiting.lock().recv();
        let Ok(Attempt { name, password, done }) = attempt else { return };
        done(match accounts.verify(&name, &password) {
            Some(user) => Verdict::Known(user),
            None => Verdict::Wrong,
        });
    }
}
