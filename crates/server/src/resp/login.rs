//! Login: verifies credentials and changes the user of a connection.
//!
//! ```text
//!   AUTH, HELLO … AUTH --password cached------------------------> settle: user, reply
//!                      --otherwise-------> verifiers --verdict--> settle
//! ```
//!
//! The connection is suspended while its password is verified, so no later command runs as the wrong user.

use super::commands::connection::{HelloOptions, apply_hello};
use super::connection_state::{CommandOutcome, ConnectionState};
use super::reply::{OK, Reply};
use crate::security::{Outcome, Resource, Secret, User, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// A login attempt.
pub struct Login {
    name: String,
    password: Secret,
    /// The options of `HELLO`, applied when the login succeeds.
    hello: Option<HelloOptions>,
}

impl Login {
    pub fn new(name: String, password: Secret, hello: Option<HelloOptions>) -> Login {
        Login { name, password, hello }
    }

    /// Returns the credentials to verify.
    pub fn credentials(&self) -> (String, Secret) {
        (self.name.clone(), self.password.clone())
    }
}

impl ConnectionState {
    /// Starts a login.
    pub fn start_login(&mut self, login: Login) -> CommandOutcome {
        if self.open_transaction.is_some() {
            let message = "ERR a transaction is open: TXN.COMMIT or TXN.ROLLBACK first";
            return CommandOutcome::Reply(Reply::error(message));
        }
        let security = &self.shared.security;
        let Some(user) = security.recall(&login.name, &login.password) else {
            return CommandOutcome::Login(Box::new(login));
        };
        security.audit().record(&security.login(&login.name, &self.peer), Outcome::Done);
        self.complete_login(login, Verdict::Known(user))
    }

    /// Completes a login with the verdict of the verifier.
    pub fn complete_login(&mut self, login: Login, verdict: Verdict) -> CommandOutcome {
        match verdict {
            Verdict::Known(user) => {
                let limit = self.shared.settings.connections;
                // Release the old slot first, otherwise it would be counted beside the new one.
                self.connection_reservation = None;
                let share = match user.share(Resource::RespConnections, limit) {
                    Ok(share) => share,
                    Err(error) => {
                        self.set_user(None);
                        return CommandOutcome::Close(Reply::error(format!("UNAVAILABLE {error}")));
                    }
                };
                self.set_user(Some(user));
                self.connection_reservation = Some(share);
                CommandOutcome::Reply(match login.hello {
                    Some(hello) => apply_hello(self, hello),
                    None => OK,
                })
            }
            Verdict::Wrong => self.reject_login(),
            Verdict::Wait(wait_ms) => CommandOutcome::Reply(Reply::error(format!(
                "UNAVAILABLE too many wrong passwords from this address: try again in {wait_ms} ms; \
                 security.failures_per_user_and_address and security.failures_per_address are the limits"
            ))),
            Verdict::Busy => CommandOutcome::Reply(Reply::error(
                "UNAVAILABLE too many are authenticating at the moment: try again later, or raise \
                 security.attempts_waiting",
            )),
        }
    }

    /// Logs in, and blocks until the verdict is known.
    pub fn log_in_blocking(&mut self, login: Login) -> CommandOutcome {
        let (name, password) = login.credentials();
        let (sender, receiver) = channel();
        // The receiver below waits for this message.
        self.shared
            .security
            .verify(name, password, &self.peer, move |verdict| drop(sender.send(verdict)));
        self.complete_login(login, receiver.recv().unwrap_or(Verdict::Busy))
    }

    /// Changes the user of the session. Subscriptions and watched keys of the old user end.
    pub fn set_user(&mut self, user: Option<Arc<User>>) {
        // The failure counter is kept when the session becomes unauthenticated, because the client may
        // still be guessing passwords.
        if user.is_some() {
            self.login_failures = 0;
        }
        self.account = self.account.of_user(user.as_ref().map(|user| user.name()));
        self.user = user;
        self.connection_reservation = None;
        self.subscriptions = Arc::new(());
        self.watch_guards.clear();
        // Pairs with the `Acquire` loads of subscriptions and work of the old user.
        self.alive.store(false, Ordering::Release);
        self.alive = Arc::new(AtomicBool::new(true));
        self.update_client_list();
    }

    fn reject_login(&mut self) -> CommandOutcome {
        self.login_failures += 1;
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        if self.login_failures < self.shared.security.settings().failures_per_connection {
            return CommandOutcome::Reply(Reply::error(wrong));
        }
        let message =
            format!("{wrong} The connection ends: security.failures_per_connection is the limit");
        CommandOutcome::Close(Reply::error(message))
    }
}
