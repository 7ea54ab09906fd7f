//! The change feed over HTTP: a stream of events, or pages of them.
//!
//! ```text
//!   log --one thread--> hub --+--channel--> reader (live) --> SSE or page
//!                             +--channel--> reader (live)
//!   log --a thread of low priority, piece by piece--> reader (behind) --caught up--> live
//! ```
//!
//! A reader that is up to date needs no thread and does not read the log. A reader that starts in the past,
//! or whose channel is full, reads the log itself in pieces until it is up to date again. Nothing is buffered
//! for it meanwhile, because the log is the buffer.

mod change;
mod hub;
mod page;
mod reader;
mod sse;
mod tail;

pub(crate) use hub::Hub;
pub(crate) use page::{__path_page, page};
pub(crate) use sse::{__path_stream, Sending, Source, follow, last_event_id, stream};
pub(crate) use tail::TailReader;

use super::Http;
use super::access::Asking;
use super::refusal::{Answered, Refusal};
use crate::security::User;
use mainstay::{Code, Contract, Error};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The filter of a feed reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub branch: Option<String>,
    pub prefix: Option<String>,
    pub contract: Option<Contract>,
    /// Only this key.
    pub key: Option<String>,
    /// The user whose rights filter the changes; `None` for no filter.
    pub user: Option<Arc<User>>,
}

impl Wanted {
    /// The filter of a request, limited to changes that the user may follow.
    fn by(
        asking: &Asking,
        branch: Option<String>,
        prefix: Option<String>,
        contract: Option<FeedContract>,
    ) -> Wanted {
        let contract = contract.map(Contract::from);
        let user = Some(asking.user.clone());
        Wanted { branch, prefix, contract, key: None, user }
    }

    fn includes(&self, contract: Contract, branch: &str, key: &str) -> bool {
        self.user.as_ref().is_none_or(|user| user.may_follow(contract, key))
            && self.contract.is_none_or(|wanted| wanted == contract)
            && self.key.as_ref().is_none_or(|wanted| wanted == key)
            && self.branch.as_ref().is_none_or(|wanted| wanted == branch)
            && self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix.as_str()))
    }
}

/// A kind of state.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FeedContract {
    /// Named values.
    Cells,
    /// Branches, tags and merges.
    Branches,
    /// Fields with bytes under a key.
    Records,
    /// Logs of events.
    Runs,
    /// Messages to be sent.
    Outbox,
    /// Spaces of keys with versions.
    Keyed,
    /// Sessions, and what is sent to their clients.
    Sessions,
}

impl From<FeedContract> for Contract {
    fn from(form: FeedContract) -> Contract {
        match form {
            FeedContract::Cells => Contract::Cells,
            FeedContract::Branches => Contract::Branches,
            FeedContract::Records => Contract::Records,
            FeedContract::Runs => Contract::Runs,
            FeedContract::Outbox => Contract::Outbox,
            FeedContract::Keyed => Contract::Keyed,
            FeedContract::Sessions => Contract::Sessions,
        }
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
    /// Only changes on this branch; sessions are on none.
    branch: Option<String>,
    /// Only changes of this kind of state.
    #[param(inline)]
    contract: Option<FeedContract>,
}

/// The start position: an existing revision, by default the newest durable one.
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
