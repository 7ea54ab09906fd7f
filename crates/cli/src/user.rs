//! `mainstay user`: password hashes for the users in the configuration.

use super::context::Context;
use super::failure::Result;
use super::password;
use clap::Subcommand;
use mainstay_server::security::hash;

/// What can be done about users.
#[derive(Debug, Subcommand)]
pub enum UserVerb {
    /// Print the hash of a password, to be put into the settings of a user: the password is asked for,
    /// or is the first line of the standard input
    Hash,
}

impl UserVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let UserVerb::Hash = self;
        context.printer.text(&hash(&password::read_new()?)?);
        Ok(())
    }
}
