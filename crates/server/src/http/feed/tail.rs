//! A reader of one run: fetches stored events, then receives new ones from the hub.
//!
//! ```text
//!   joins the hub --> fetches from its position, page after page --> no more --> waits at the hub
//!        ^                                                                             |
//!        '--------------- dropped by the hub, or an event is missing ------------------'
//! ```
//!
//! It joins before it fetches. So an event that is durable and visible by then is fetched, and a later one is
//! delivered. A delivered event that was already fetched is dropped by its sequence number.

use super::Wanted;
use super::change::Change;
use super::hub::{Delivery, Held};
use super::sse;
use crate::http::Http;
use crate::http::answers::{account, no_memory};
use crate::http::extract::runs_of;
use crate::http::forms::{Raw, shown_event};
use crate::http::refusal::Answered;
use crate::memory::Account;
use mainstay::{CanonicalEvent, Contract, MAIN, Name};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The most events per fetch.
const PIECE_EVENTS: usize = 1_000;
/// Once the fetched events have this many bytes together, the fetch ends.
const PIECE_BYTES: usize = 256 << 10;

/// One client's position in a run.
pub(crate) struct TailReader {
    app: Http,
    /// The account that is charged for deliveries of the hub.
    account: Arc<Account>,
    run: Name,
    branch: Option<String>,
    /// The sequence number of the last returned event.
    after: u64,
    /// Receives later events from the hub.
    live: Option<mpsc::Receiver<Delivery>>,
    /// True if stored events may exist that the hub does not deliver.
    behind: bool,
    _counted: Counted,
}

/// An event, ready to be sent.
pub(crate) struct Told {
    pub seq: u64,
    text: Text,
    /// The reservation of its memory.
    pub held: Held,
}

enum Text {
    Own(Raw),
    /// Encoded once for all readers.
    Shared(Arc<Change>),
}

impl Told {
    /// The event as JSON.
    pub fn json(&self) -> &RawValue {
        match &self.text {
            Text::Own(text) => text,
            Text::Shared(change) => change.value().unwrap_or(RawValue::NULL),
        }
    }

    /// The JSON as a line of the stream.
    pub fn line(&self) -> sse::Text<'_> {
        let text = self.json().get();
        match &self.text {
            Text::Own(_) => text.into(),
            Text::Shared(change) => sse::shared(change, text),
        }
    }
}

/// Counts a reader in a gauge until it is dropped.
struct Counted(Gauge);

impl Counted {
    fn new(readers: &Gauge) -> Counted {
        readers.inc();
        Counted(readers.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl TailReader {
    /// Starts after an event of a run. The run may not exist yet, but the branch must.
    pub async fn open(
        app: &Http,
        run: Name,
        branch: Option<String>,
        after: u64,
    ) -> Answered<TailReader> {
        runs_of(app.db(), branch.as_deref())?;
        let account = account(app);
        let (app, _counted) = (app.clone(), Counted::new(&app.metrics().tails));
        Ok(TailReader { app, account, run, branch, after, live: None, behind: true, _counted })
    }

    /// The sequence number of the last returned event.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// Waits for the next events: at most `limit` when they are fetched, or all of one delivery. Returns none
    /// after `quiet` without any.
    pub async fn next(&mut self, limit: usize, quiet: Duration) -> Answered<Vec<Told>> {
        loop {
            if self.behind {
                let told = self.fetch(limit.min(PIECE_EVENTS)).await?;
                if !told.is_empty() {
                    return Ok(told);
                }
                self.behind = false;
            }
            let Some(live) = &mut self.live else { continue };
            let told = match tokio::time::timeout(quiet, live.recv()).await {
                Ok(Some(delivery)) => self.take(&delivery),
                Ok(None) => {
                    self.live = None;
                    self.behind = true;
                    continue;
                }
                Err(_) => {
                    // Fetch again next time: a deleted branch delivers no events, and only a fetch reports
                    // the error.
                    self.behind = true;
                    return Ok(Vec::new());
                }
            };
            if !told.is_empty() {
                return Ok(told);
            }
        }
    }

    /// The events of a delivery that continue the run. A gap or a restore makes the reader fetch instead.
    fn take(&mut self, delivery: &Delivery) -> Vec<Told> {
        let mut told = Vec::new();
        for change in &delivery.changes {
            match change.appended() {
                Some(seq) if seq == self.after + 1 => {
                    self.after = seq;
                    let text = Text::Shared(change.clone());
                    told.push(Told { seq, text, held: Held::default() });
                }
                Some(seq) if seq > self.after => {
                    self.behind = true;
                    break;
                }
                _ if change.is_restored() => {
                    self.behind = true;
                    break;
                }
                _ => {}
            }
        }
        told
    }

    async fn fetch(&mut self, limit: usize) -> Answered<Vec<Told>> {
        if self.live.is_none() {
            self.live = Some(self.join().await);
        }
        let db = self.app.db().clone();
        let branch = self.branch.clone();
        let run = self.run.clone();
        let after = self.after;
        let account = self.account.clone();
        let read = move || {
            let mut tail = runs_of(&db, branch.as_deref())?.tail(run.as_str(), after)?;
            own(&tail.glance(limit, PIECE_BYTES)?, &account)
        };
        let told = self.app.catch_up(&self.account, read).await?;
        self.after = told.last().map_or(self.after, |last| last.seq);
        Ok(told)
    }

    /// Returns whether events may be available for a fetch.
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    /// Joins the hub where the durable log and the visible state both end. Later events are delivered,
    /// earlier ones are fetched. The hub may be ahead of that position for a moment, so this retries.
    async fn join(&self) -> mpsc::Receiver<Delivery> {
        let wanted = Wanted {
            branch: Some(self.branch.clone().unwrap_or_else(|| MAIN.to_owned())),
            contract: Some(Contract::Runs),
            key: Some(self.run.as_str().to_owned()),
            ..Wanted::default()
        };
        loop {
            let db = self.app.db();
            let position = db.durable_revision().min(db.revision());
            match self.app.hub().join(wanted.clone(), position, &self.account) {
                Some(receiver) => return receiver,
                None => tokio::task::yield_now().await,
            }
        }
    }
}

/// Encodes fetched events. The last one holds the reservation for all.
fn own(events: &[CanonicalEvent], account: &Arc<Account>) -> Answered<Vec<Told>> {
    let mut told = Vec::with_capacity(events.len());
    for event in events {
        let seq = event.run_seq;
        let text = Text::Own(shown_event(event)?);
        told.push(Told { seq, text, held: Held::default() });
    }
    let bytes = told.iter().map(|told| told.json().get().len()).sum();
    let held = Held::reserve(account, bytes).map_err(|exceeded| no_memory(&exceeded))?;
    if let Some(last) = told.last_mut() {
        last.held = held;
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Settings;
    use mainstay::{Database, NewEvent};

    /// Fetched events stay in memory as JSON, because the client may never read them.
    #[tokio::test]
    async fn large_events_are_fetched_a_few_at_a_time() {
        let db = Database::memory().unwrap();
        for n in 0..40 {
            let key = Some(n.to_string());
            let event = NewEvent { idempotency_key: key, ..NewEvent::new("r", "Noted") };
            db.runs().append(event.value("x".repeat(100 << 10))).unwrap();
        }
        let app = Http::new(db, Settings::default()).unwrap();
        let run = Name::new("r").unwrap();
        let mut tail = TailReader::open(&app, run, None, 0).await.unwrap();
        let mut seen = 0;
        let mut most = 0;
        while seen < 40 {
            let told = tail.next(1_000, Duration::ZERO).await.unwrap();
            seen += told.len();
            most = most.max(told.len());
        }
        assert_eq!(most, 3, "as many as have 256 KiB together");
    }
}
