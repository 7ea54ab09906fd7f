//! Read load: current reads, and reads as of a second ago.

use super::cells::{COUNTERS, counter};
use super::{Desk, keyed, number};
use mainstay::{At, Code, Error, Result};

/// How far back reads go, well within retention, in microseconds.
const PAST_US: u64 = 1_000_000;

pub(super) fn step(desk: &mut Desk) -> Result<()> {
    match desk.random.below(10) {
        0..5 => now(desk),
        5..8 => past(desk),
        _ => list(desk),
    }
}

fn now(desk: &mut Desk) -> Result<()> {
    let hand = desk.random.below(desk.hands);
    let k = desk.random.below(100);
    desk.db.cells().get(&format!("cell/{k}"))?;
    desk.db.records().get(&format!("record/{hand}/{k}"))?;
    desk.db.keyed(keyed::STATES)?.get(format!("{hand}/{k}")).map(drop)
}

/// Checks that a counter was never larger than it is now.
fn past(desk: &mut Desk) -> Result<()> {
    let name = counter(desk.random.below(COUNTERS));
    let then = desk.db.cells().at(At::Stamp(desk.db.now_us()?.saturating_sub(PAST_US)))?;
    let was = number(then.get(&name)?.as_ref());
    then.records().get("mark/0")?;
    then.keyed(keyed::STATES)?.get("mark/0")?;
    let is = number(desk.db.cells().get(&name)?.as_ref());
    if was <= is {
        Ok(())
    } else {
        let message = format!("`{name}` is {is} now and was {was} a second ago");
        Err(Error::new(Code::CorruptData, message))
    }
}

fn list(desk: &mut Desk) -> Result<()> {
    let prefix = format!("cell/{}", desk.random.below(100));
    desk.db.cells().list(&prefix, None, 50).map(drop)
}
