//! `mainstay state`: the verbs that write to a space.

use super::super::call::Call;
use super::super::cell::{given, write};
use super::super::failure::Result;
use super::super::field::{Field, Row};
use super::super::session::Session;
use super::super::shapes;
use super::{Which, key};
use clap::Args;

/// Declaring a space.
#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    space: Which,
    /// The kind of its versions, u64 or time [default: that of the first write]
    #[arg(long, value_name = "KIND")]
    versions: Option<String>,
    /// Writes wait until their version is sealed, and are applied in order
    #[arg(long)]
    ordered: bool,
    /// How many groups its keys belong to [default: 128]
    #[arg(long, value_name = "N")]
    groups: Option<u32>,
}

/// Writing a state.
#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    space: Which,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    /// Its state; - takes the standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// The version: a whole number, or epoch.round
    #[arg(long)]
    version: String,
}

/// Deleting a state.
#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    space: Which,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    /// The version of the deletion: a whole number, or epoch.round
    #[arg(long)]
    version: String,
}

/// Adding to a log.
#[derive(Debug, Args)]
pub struct Append {
    #[command(flatten)]
    space: Which,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    /// What tells the item from others
    id: String,
    /// The item; - takes the standard input
    #[arg(allow_hyphen_values = true)]
    item: String,
}

/// Saying how far a source was read.
#[derive(Debug, Args)]
pub struct Advance {
    #[command(flatten)]
    space: Which,
    /// The source
    source: String,
    /// How far it was read
    position: u64,
}

/// Closing versions.
#[derive(Debug, Args)]
pub struct Seal {
    #[command(flatten)]
    space: Which,
    /// The lowest version that is still open: a whole number, or epoch.round
    frontier: String,
}

/// Executes a write and prints its outcome.
fn show(
    session: &mut Session,
    space: &Which,
    name: &str,
    call: Call,
    more: Row,
    missing: String,
) -> Result<()> {
    let reply = write(session, &space.on, call)?;
    let row = space.row().into_iter().chain(more).collect();
    session.show(shapes::shape(name), row, reply, || missing)
}

fn keyed(key: &str) -> Row {
    vec![("key".into(), Field::text(key))]
}

impl Create {
    pub(super) fn call(&self) -> Call {
        let call = self.space.call("STATE.CREATE").option("VERSIONS", self.versions.as_ref());
        call.flag("ORDERED", self.ordered).option("GROUPS", self.groups)
    }

    pub fn run(self, session: &mut Session) -> Result<()> {
        let missing =
            format!("the space {} is there already, and declared like this", self.space.space);
        show(session, &self.space, "STATE.CREATE", self.call(), Row::new(), missing)
    }
}

impl Put {
    pub(super) fn call(&self, value: &[u8]) -> Result<Call> {
        let call = self.space.call("STATE.PUT").word(key(&self.key)?).word(value);
        Ok(call.option("VERSION", Some(&self.version)))
    }

    pub fn run(self, session: &mut Session) -> Result<()> {
        let value = given(self.value.clone(), session)?;
        let call = self.call(&value)?;
        let missing = stale(&self.key, &self.version);
        show(session, &self.space, "STATE.PUT", call, keyed(&self.key), missing)
    }
}

fn stale(key: &str, version: &str) -> String {
    format!("version {version} is not newer than that of {key}, or is sealed: nothing was written")
}

impl Delete {
    pub fn run(self, session: &mut Session) -> Result<()> {
        let call = self.space.call("STATE.DEL").word(key(&self.key)?);
        let call = call.option("VERSION", Some(&self.version));
        let missing = stale(&self.key, &self.version);
        show(session, &self.space, "STATE.DEL", call, keyed(&self.key), missing)
    }
}

impl Append {
    pub fn run(self, session: &mut Session) -> Result<()> {
        let item = given(self.item, session)?;
        let call = self.space.call("STATE.APPEND").word(key(&self.key)?).word(key(&self.id)?);
        let missing = format!("the log of {} has an item {} already", self.key, self.id);
        show(session, &self.space, "STATE.APPEND", call.word(item), keyed(&self.key), missing)
    }
}

impl Advance {
    pub fn run(self, session: &mut Session) -> Result<()> {
        let call = self.space.call("STATE.ADVANCE").word(&self.source);
        let call = call.word(self.position.to_string());
        let missing = format!("{} was read to {} or further already", self.source, self.position);
        let more = vec![("source".into(), Field::text(&self.source))];
        show(session, &self.space, "STATE.ADVANCE", call, more, missing)
    }
}

impl Seal {
    pub fn run(self, session: &mut Session) -> Result<()> {
        let call = self.space.call("STATE.SEAL").word(&self.frontier);
        show(session, &self.space, "STATE.SEAL", call, Row::new(), String::new())
    }
}
