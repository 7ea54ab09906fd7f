//! Login: verifies credentials and changes the user of a connection.
//!
//! ```text
//!   AUTH, HELLO … AUTH --password cached------------------------> settle: user, reply
//!                      --otherwise-------> verifiers --verdict--> settle
//! ```
//!
//! The connection is suspended while its password is verified, so no later command runs as the wrong user.

use super::commands::connection::{Greeting, greet};
use super::reply::{OK, Reply};
use super::session::{Handled, Session};
use crate::security::{Outcome, Resource, Secret, User, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// A login attempt.
pub struct Login {
    name: String,
    password: Secret,
    /// The options of `HELLO`, applied when the login succeeds.
    greeting: Option<Greeting>,
}

impl Login {
    pub fn new(name: String, password: Secret, greeting: Option<Greeting>) -> Login {
        Login { name, password, greeting }
    }

    /// Returns the credentials to verify.
    pub fn credentials(&self) -> (String, Secret) {
        (self.name.clone(), self.password.clone())
    }
}

impl Session {
    /// Starts a login.
    pub fn log_in(&mut self, login: Login) -> Handled {
        if self.open.is_some() {
            let message = "ERR a transaction is open: TXN.COMMIT or TXN.ROLLBACK first";
            return Handled::Reply(Reply::error(message));
        }
        let security = &self.shared.security;
        let Some(user) = security.recall(&login.name, &login.password) else {
            return Handled::Login(Box::new(login));
        };
        security.audit().record(&security.login(&login.name, &self.peer), Outcome::Done);
        self.settle(login, Verdict::Known(user))
    }

    /// Completes a login with the verdict of the verifier.
    pub fn settle(&mut self, login: Login, verdict: Verdict) -> Handled {
        match verdict {
            Verdict::Known(user) => {
                let limit = self.shared.settings.connections;
                // Release the old slot first, otherwise it would be counted beside the new one.
                self.connection_share = None;
                let share = match user.share(Resource::RespConnections, limit) {
                    Ok(share) => share,
                    Err(error) => {
                        self.become_user(None);
                        return Handled::Close(Reply::error(format!("UNAVAILABLE {error}")));
                    }
                };
                self.become_user(Some(user));
                self.connection_share = Some(share);
                Handled::Reply(match login.greeting {
                    Some(greeting) => greet(self, greeting),
                    None => OK,
                })
            }
            Verdict::Wrong => self.wrong(),
            Verdict::Wait(wait_ms) => Handled::Reply(Reply::error(format!(
                "UNAVAILABLE too many wrong passwords from this address: try again in {wait_ms} ms; \
                 security.failures_per_user_and_address and security.failures_per_address are the limits"
            ))),
            Verdict::Busy => Handled::Reply(Reply::error(
                "UNAVAILABLE too many are authenticating at the moment: try again later, or raise \
                 security.attempts_waiting",
            )),
        }
    }

    /// Logs in, and blocks until the verdict is known.
    pub fn log_in_here(&mut self, login: Login) -> Handled {
        let (name, password) = login.credentials();
        let (sender, receiver) = channel();
        // The receiver below waits for this message.
        self.shared
            .security
            .verify(name, password, &self.peer, move |verdict| drop(sender.send(verdict)));
        self.settle(login, receiver.recv().unwrap_or(Verdict::Busy))
    }

    /// Changes the user of the session. Subscriptions and watched keys of the old user end.
    pub fn become_user(&mut self, user: Option<Arc<User>>) {
        // The failure counter is kept when the session becomes unauthenticated, because the client may
        // still be guessing passwords.
        if user.is_some() {
            self.failures = 0;
        }
        self.account = self.account.of_user(user.as_ref().map(|user| user.name()));
        self.user = user;
        self.connection_share = None;
        self.watches = Arc::new(());
        self.watched.clear();
        // Pairs with the `Acquire` loads of subscriptions and work of the old user.
        self.alive.store(false, Ordering::Release);
        self.alive = Arc::new(AtomicBool::new(true));
        self.tell_of_itself();
    }

    fn wrong(&mut self) -> Handled {
        self.failures += 1;
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        if self.failures < self.shared.security.settings().failures_per_connection {
            return Handled::Reply(Reply::error(wrong));
        }
        let message =
            format!("{wrong} The connection ends: security.failures_per_connection is the limit");
        Handled::Close(Reply::error(message))
    }
}
