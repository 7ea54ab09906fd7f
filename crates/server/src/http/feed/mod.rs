//! The feed over HTTP: a stream of events, or pages of them.
//!
//! ```text
//!   log --one thread--> hub --+--channel--> reader (live) --> SSE or page
//!                             +--channel--> reader (live)
//!   log --a bounded slow read, piece by piece--> reader (behind) --caught up--> live
//! ```
//!
//! A reader that is up to date costs no thread and no reading of its own. One that comes from the past,
//! or whose channel ran full, reads the log itself, in pieces, until it is up to date again. Nothing is
//! buffered for it meanwhile: the log is the buffer.

mod change;
mod hub;
mod page;
mod reader;
mod sse;

pub(crate) use hub::Hub;
pub(crate) use page::{__path_page, page};
pub(crate) use sse::{__path_stream, stream};

use super::Http;
use super::access::Asking;
use super::refusal::{Answered, Refusal};
use mainstay::{Code, Error};
use serde::Deserialize;
use utoipa::IntoParams;

/// Which changes are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub branch: Option<String>,
    pub prefix: Option<String>,
    /// Names of branches and tags are not keys: whoever has only some of those is not told of them.
    pub keys_only: bool,
}

impl Wanted {
    /// What a user asks for, and nothing that is not for them.
    fn by(asking: &Asking, branch: Option<String>, prefix: Option<String>) -> Wanted {
        Wanted { branch, prefix, keys_only: !asking.user.has_all_keys() }
    }

    fn includes(&self, branch: &str, key: &str, is_key: bool) -> bool {
        (is_key || !self.keys_only)
            && self.branch.as_ref().is_none_or(|wanted| wanted == branch)
            && self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix.as_str()))
    }
}

/// Which changes a stream carries.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct FeedArguments {
    /// Only changes after this revision; those from now on without it.
    after: Option<u64>,
    /// Only keys that begin with this.
    prefix: Option<String>,
    /// Only changes on this branch.
    branch: Option<String>,
}

/// Where to begin: behind a revision that there is, or behind the newest.
fn start(app: &Http, after: Option<u64>) -> Answered<u64> {
    let newest = app.db().revision();
    match after {
        None => Ok(app.db().durable_revision()),
        Some(after) if after <= newest => Ok(after),
        Some(after) => {
            let message = format!("revision {after} lies in the future: {newest} is the newest");
            Err(Refusal::from(Error::new(Code::FutureRevision, message)))
        }
    }
}
