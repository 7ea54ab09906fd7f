//! A feed consumer: sees every increment of a counter once, in order.

use super::work::COUNTER;
use crate::drill::Outcome;
use mainstay::{Code, Contract, Database, Event, Filter, MAIN};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long it waits for the next change.
const WAIT: Duration = Duration::from_millis(100);

/// The observations of the consumer.
#[derive(Clone, Debug, Default)]
pub(super) struct Follower {
    /// The number of changes.
    pub seen: u64,
    /// How often the log no longer reached back to its position.
    pub lagged: u64,
    /// The last write of each counter.
    last: BTreeMap<String, u64>,
}

/// Follows the feed until the load ends.
pub(super) fn run(db: &Database, over: &AtomicBool) -> Outcome<Follower> {
    let told = |error: mainstay::Error| format!("the feed: {error}");
    let mut follower = Follower::default();
    let mut feed = db.watch(filter(), db.durable_revision()).map_err(told)?;
    while !over.load(Ordering::Relaxed) {
        match feed.next(WAIT) {
            Ok(Some(event)) => follower.take(&event)?,
            Ok(None) => {}
            Err(error) if error.code() == Code::Lagged => {
                follower.lagged += 1;
                follower.last.clear();
                feed = db.watch(filter(), db.durable_revision()).map_err(told)?;
            }
            Err(error) => return Err(told(error)),
        }
    }
    Ok(follower)
}

fn filter() -> Filter {
    let branch = Some(MAIN.to_owned());
    let prefix = Some(COUNTER.to_owned());
    Filter { branch, contract: Some(Contract::Cells), prefix, ..Filter::default() }
}

impl Follower {
    fn take(&mut self, event: &Event) -> Outcome<()> {
        self.seen += 1;
        let last = self.last.insert(event.key.clone(), event.counter);
        match last {
            Some(last) if last + 1 != event.counter => {
                let Event { key, counter, .. } = event;
                Err(format!("the feed told of `{key}` write {counter} behind write {last}"))
            }
            _ => Ok(()),
        }
    }
}
