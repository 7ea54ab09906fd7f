//! Faulty stores: wrong reads.

use super::bites;
use crate::bent::{Before, Bend, Wanted, clamp};
use mainstay_model::{Item, Kept, KeyedState, Result, StatePage, Version, WaitingEntry};

/// Returns results in the wrong order.
struct Disorder;

impl Bend for Disorder {
    fn scan(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<StatePage> {
        let mut page = wanted.scan(inner)?;
        page.states.reverse();
        Ok(page)
    }

    fn items(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<Vec<Item>> {
        let mut items = wanted.items(inner)?;
        items.reverse();
        Ok(items)
    }

    fn waiting(
        &self,
        inner: &dyn KeyedState,
        below: Option<Version>,
        limit: usize,
    ) -> Result<Vec<WaitingEntry>> {
        let mut waiting = inner.waiting(below, limit)?;
        waiting.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(waiting)
    }

    fn look(&self, inner: &dyn KeyedState, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        let mut kept = inner.look(keys)?;
        kept.sort_by_key(Option::is_none);
        Ok(kept)
    }
}

#[test]
fn answers_out_of_order() {
    let cases = [
        "scan::goes_in_byte_order",
        "scan::cursor_gives_everything_once",
        "scan::keeps_to_the_prefix",
        "append::goes_in_order_of_ids",
        "append::pages_give_everything_once",
        "ordered::wait_in_order_of_versions_then_keys",
        "versions::look_answers_as_asked",
        "programs::of_newest_wins",
    ];
    bites(|| Before::bent(|| Disorder), &cases);
}

/// Accepts any page limit, and fills pages regardless of their size in bytes.
struct Careless;

impl Bend for Careless {
    fn scan(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<StatePage> {
        let mut page = wanted.clamped().scan(inner)?;
        // Continues until the page is full, regardless of its size in bytes.
        while let Some(next) = page.next.take() {
            let room = wanted.limit.saturating_sub(page.states.len());
            if room == 0 {
                page.next = Some(next);
                break;
            }
            let more = Wanted { after: Some(&next), limit: room, ..wanted }.scan(inner)?;
            page.states.extend(more.states);
            page.next = more.next;
        }
        Ok(page)
    }

    fn items(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<Vec<Item>> {
        wanted.clamped().items(inner)
    }

    fn waiting(
        &self,
        inner: &dyn KeyedState,
        below: Option<Version>,
        limit: usize,
    ) -> Result<Vec<WaitingEntry>> {
        inner.waiting(below, clamp(limit))
    }
}

#[test]
fn pages_of_any_size() {
    let cases = [
        "scan::limits_are_checked",
        "scan::large_pages_end_early",
        "append::limits_are_checked",
        "ordered::waiting_is_told_in_pieces",
    ];
    bites(|| Before::bent(|| Careless), &cases);
}

/// Returns a cursor with every full page, and includes the key of the cursor in the next page.
struct Overlaps;

impl Bend for Overlaps {
    fn scan(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<StatePage> {
        let mut page = wanted.scan(inner)?;
        if page.states.len() == wanted.limit {
            page.next = page.states.last().map(|(key, _)| key.clone());
        }
        if let Some(state) = wanted.after.and_then(|after| Some((after, inner.get(after).ok()??))) {
            page.states.insert(0, (state.0.to_vec(), state.1));
        }
        Ok(page)
    }
}

#[test]
fn pages_that_overlap() {
    let cases = [
        "scan::end_is_told",
        "scan::goes_on_behind_a_key",
        "scan::cursor_gives_everything_once",
        "scan::skips_deleted_keys",
    ];
    bites(|| Before::bent(|| Overlaps), &cases);
}
