//! Faulty stores: wrong reads.

use super::detects;
use crate::faulty_store::Faults;
use mainstay_model::limits::PAGE_LIMIT;

/// Clamps a page limit to the valid range.
fn clamp(limit: usize) -> usize {
    limit.clamp(1, PAGE_LIMIT)
}

#[test]
fn answers_out_of_order() {
    // Returns results in the wrong order.
    let faults = || {
        Faults::default()
            .scan(|inner, prefix, after, limit| {
                let mut page = inner.scan(prefix, after, limit)?;
                page.states.reverse();
                Ok(page)
            })
            .items(|inner, key, after, limit| {
                let mut items = inner.items(key, after, limit)?;
                items.reverse();
                Ok(items)
            })
            .waiting(|inner, below, limit| {
                let mut waiting = inner.waiting(below, limit)?;
                waiting.sort_by(|one, other| one.key.cmp(&other.key));
                Ok(waiting)
            })
            .look(|inner, keys| {
                let mut kept = inner.look(keys)?;
                kept.sort_by_key(Option::is_none);
                Ok(kept)
            })
    };
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
    detects(faults, &cases);
}

#[test]
fn pages_of_any_size() {
    // Accepts any page limit, and fills pages regardless of their size in bytes.
    let faults = || {
        Faults::default()
            .scan(|inner, prefix, after, limit| {
                let mut page = inner.scan(prefix, after, clamp(limit))?;
                // Continues until the page is full, regardless of its size in bytes.
                while let Some(next) = page.next.take() {
                    let room = limit.saturating_sub(page.states.len());
                    if room == 0 {
                        page.next = Some(next);
                        break;
                    }
                    let more = inner.scan(prefix, Some(&next), room)?;
                    page.states.extend(more.states);
                    page.next = more.next;
                }
                Ok(page)
            })
            .items(|inner, key, after, limit| inner.items(key, after, clamp(limit)))
            .waiting(|inner, below, limit| inner.waiting(below, clamp(limit)))
    };
    let cases = [
        "scan::limits_are_checked",
        "scan::large_pages_end_early",
        "append::limits_are_checked",
        "ordered::waiting_is_told_in_pieces",
    ];
    detects(faults, &cases);
}

#[test]
fn pages_that_overlap() {
    // Returns a cursor with every full page, and includes the key of the cursor in the next page.
    let faults = || {
        Faults::default().scan(|inner, prefix, after, limit| {
            let mut page = inner.scan(prefix, after, limit)?;
            if page.states.len() == limit {
                page.next = page.states.last().map(|(key, _)| key.clone());
            }
            if let Some(state) = after.and_then(|after| Some((after, inner.get(after).ok()??))) {
                page.states.insert(0, (state.0.to_vec(), state.1));
            }
            Ok(page)
        })
    };
    let cases = [
        "scan::end_is_told",
        "scan::goes_on_behind_a_key",
        "scan::cursor_gives_everything_once",
        "scan::skips_deleted_keys",
    ];
    detects(faults, &cases);
}
