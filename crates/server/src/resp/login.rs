//! Logins: a connection says who it is, and becomes that user.
//!
//! ```text
//!   AUTH, HELLO … AUTH --remembered--------------------------> settle: user, reply
//!                      --not--> verifiers --verdict--> settle
//! ```
//!
//! The session rests while its password is verified, so nothing behind it runs as somebody else.

use super::commands::connection::{Greeting, greet};
use super::reply::{OK, Reply};
use super::session::{Handled, Session};
use crate::security::{Outcome, Resource, Secret, User, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// Somebody who says who they are.
pub struct Login {
    name: String,
    password: Secret,
    /// What `HELLO` asked for, to be done when it is true.
    greeting: Option<Greeting>,
}

impl Login {
    /// With these credentials.
    pub fn new(name: String, password: Secret, greeting: Option<Greeting>) -> Login {
        Login { name, password, greeting }
    }

    /// What is to be verified.
    pub fn credentials(&self) -> (String, Secret) {
        (self.name.clone(), self.password.clone())
    }
}

impl Session {
    /// Begins to log in.
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

    /// Becomes the user, or does not.
    pub fn settle(&mut self, login: Login, verdict: Verdict) -> Handled {
        match verdict {
            Verdict::Known(user) => {
                let limit = self.shared.settings.connections;
                // The one that it has would be counted beside it.
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

    /// Logs in, however long that takes.
    pub fn log_in_here(&mut self, login: Login) -> Handled {
        let (name, password) = login.credentials();
        let (sender, receiver) = channel();
        // Whoever sent this waits for it.
        let told = move |verdict| drop(sender.send(verdict));
        self.shared.security.verify(name, password, &self.peer, told);
        self.settle(login, receiver.recv().unwrap_or(Verdict::Busy))
    }

    /// Is another user from here on. What was begun as the one before ends.
    pub fn become_user(&mut self, user: Option<Arc<User>>) {
        // Whoever has not said who they are has not stopped guessing.
        if user.is_some() {
            self.failures = 0;
        }
        self.account = self.account.of_user(user.as_ref().map(|user| user.name()));
        self.user = user;
        self.connection_share = None;
        self.watches = Arc::new(());
        self.watched.clear();
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
