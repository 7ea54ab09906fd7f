//! Reads of several keys from one snapshot.

use super::super::serial::{Fate, Recorded, Step};
use super::interactive::nonsense;
use super::keys::{self, Part};
use super::line::Scene;
use crate::drill::Outcome;
use mainstay::{At, CellsAt, Result};
use mainstay_conformance::random::Random;

/// Reads several keys and returns the record of the reads.
pub fn run(scene: &Scene<'_>, random: &mut Random) -> Outcome<Recorded> {
    let invoked = scene.stage.moments.next();
    let seen = look(scene, random).map_err(|error| error.to_string())?;
    let (read_at, steps) = seen;
    let thread = scene.thread;
    let fate = Fate::Committed;
    let returned = scene.stage.moments.next();
    Ok(Recorded { thread, invoked, returned, fate, read_at: Some(read_at), steps })
}

fn look(scene: &Scene<'_>, random: &mut Random) -> Result<(u64, Vec<Step>)> {
    let view = scene.db.cells().at(At::Latest)?;
    let mut steps = Vec::new();
    for _ in 0..1 + random.below(5) {
        steps.push(if random.chance(70) {
            read(&view, keys::any(random))?
        } else {
            list(&view, Part::any(random))?
        });
    }
    Ok((view.revision(), steps))
}

fn read(view: &CellsAt, key: String) -> Result<Step> {
    let saw = if keys::is_record(&key) {
        keys::saw_record(view.records().get(&key)?.as_ref())
    } else {
        keys::saw_cell(view.get_versioned(&key)?.as_ref())
    };
    let saw = saw.ok_or_else(|| nonsense(&key))?;
    Ok(Step::Read(key, saw))
}

fn list(view: &CellsAt, part: Part) -> Result<Step> {
    let prefix = part.prefix.clone();
    let after = part.after.clone();
    if keys::is_record(&prefix) {
        let page = view.records().scan(&prefix, &[], after.as_deref(), part.limit)?;
        part.of_records(&page).ok_or_else(|| nonsense(&prefix))
    } else {
        let page = view.list(&prefix, after.as_deref(), part.limit)?;
        Ok(part.of_cells(&page))
    }
}
