//! Power-failure exploration: cuts a recorded workload at event boundaries and checks the recovered database.

use super::procedure::Procedure;
use super::recording::{DATABASE, Recording, Start, runs};
use super::subject::Subject;
use super::trial::cut_all;
use super::trouble::Trouble;
use crate::disk::{Event, Homes, Image, Model};
use crate::drill::{Account, Look, Outcome, Work, options};
use crate::effort;
use mainstay::Options;
use mainstay_conformance::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of consecutive processes on one database before a new database is created.
const CHAIN: u64 = 4;

/// With at least this many cuts, nearly every kind of cut occurs.
const MANY: u64 = 500;

/// With at least this many cuts, torn log tails occur. Of 500 cuts only zero to three have one.
const MANY_TORN: u64 = 3_000;

/// A recorded process is also killed once per this many of its cuts.
const CUTS_FOR_EACH_KILL: u64 = 10;

/// Number of power cuts in the process that follows a killed one.
const CUTS_EACH_KILLED: u64 = 8;

/// Parameters of an exploration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of all random choices. Thread scheduling does not depend on it.
    pub seed: u64,
    /// Total number of cuts.
    pub cuts: u64,
    /// Maximum number of cuts per recording.
    pub cuts_each: u64,
    /// Also cut procedures other than writing, such as backups and restores.
    pub beside: bool,
    /// The file that receives a violation.
    pub keep: PathBuf,
}

/// Statistics of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Drills recorded.
    pub recordings: u64,
    /// Cuts checked.
    pub cuts: u64,
    /// Cuts in a process that was recovering from an earlier cut.
    pub during_recovery: u64,
    /// Processes that were killed, so that the next one started with their unsynced data.
    pub kills: u64,
    /// Cuts by model.
    pub models: BTreeMap<Model, u64>,
    /// Cuts by the kind of the event after the cut.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Durable acknowledged writes that were found, over all cuts.
    pub acknowledged: u64,
    /// Writes acknowledged without durability that cuts have lost.
    pub unsynced_lost: u64,
    /// Torn log tails cut off by recovery.
    pub torn: u64,
    /// Indexes rebuilt from the log.
    pub rebuilt: u64,
    /// Cuts of other procedures: backups, restores, salvages.
    pub procedures: u64,
}

/// Runs the plan. The error describes the violation.
pub fn run(plan: &Plan, mut say: impl FnMut(&Tally)) -> Outcome<Tally> {
    let mut tally = Tally::default();
    let mut chain = 0;
    if plan.beside {
        cut_beside(plan, &mut tally)?;
    }
    let wanted = tally.cuts + plan.cuts;
    while tally.cuts < wanted {
        chain += 1;
        explore_chain(plan, chain, wanted, &mut tally, &mut say)?;
    }
    effort::insist_on(&[("acknowledged write", tally.acknowledged)])?;
    // With only a few cuts, some of these may be missing by chance.
    if plan.cuts >= MANY {
        effort::insist_on(&[
            ("cut during recovery", tally.during_recovery),
            ("process that was killed before", tally.kills),
            ("write that was not synced and is gone", tally.unsynced_lost),
        ])?;
    }
    if plan.cuts >= MANY_TORN {
        effort::insist_on(&[("torn end", tally.torn)])?;
    }
    Ok(tally)
}

/// Cuts the procedures other than writing.
fn cut_beside(plan: &Plan, tally: &mut Tally) -> Outcome<()> {
    let homes = Homes::make()?;
    let subject = Subject::make(plan.seed, &homes)?;
    for procedure in Procedure::ALL {
        let tried = cut_all(procedure, &subject, &homes, (plan.seed, plan.cuts_each as usize));
        let cuts = tried.map_err(|broken| broken.keep(&plan.keep, plan.seed))?;
        tally.cuts += cuts;
        tally.procedures += cuts;
    }
    Ok(())
}

/// Runs several processes on one database. Each starts from the files that a cut left, or directly after the
/// previous process was killed.
fn explore_chain(
    plan: &Plan,
    chain: u64,
    wanted: u64,
    tally: &mut Tally,
    say: &mut impl FnMut(&Tally),
) -> Outcome<()> {
    let homes = Homes::make()?;
    let mut start = Start::default();
    for generation in 1..=CHAIN {
        if tally.cuts >= wanted {
            break;
        }
        let mut random = Random::of(&[plan.seed, chain, generation]);
        let operations = [5, 30, 120][random.below(3) as usize];
        let seed = random.next();
        let work = Work { seed, generation, writers: 4, operations, faulty: false };
        // Half of the databases keep no more of the log than they need, so that a lost flush mark is noticed.
        let options =
            if random.chance(50) { options().feed_retention(Duration::ZERO, 0) } else { options() };
        let options = options.write_buffer_bytes((64 << 10) << random.below(3));
        let recording = Recording::make(start, work, options.clone(), &homes.mounted)?;
        tally.recordings += 1;
        let cuts = recording.cuts(plan.cuts_each.min(wanted - tally.cuts), &mut random);
        let explorer = Explorer { recording: &recording, homes: &homes, plan };
        let after_cut = explorer.explore(&cuts, tally)?;
        explorer.kill(&options, wanted, &mut random, tally)?;
        say(tally);
        start = if random.chance(60) { after_cut } else { recording.after_kill(&mut random) };
    }
    Ok(())
}

fn kind(event: Option<&Event>) -> &'static str {
    match event {
        Some(Event::Make { .. }) => "make",
        Some(Event::Write { .. }) => "write",
        Some(Event::Resize { .. }) => "resize",
        Some(Event::Rename { .. }) => "rename",
        Some(Event::Link { .. }) => "link",
        Some(Event::Remove { .. }) => "remove",
        Some(Event::Sync { .. }) => "sync",
        Some(Event::Dropped { .. }) => "dropped",
        Some(Event::Note(_)) => "note",
        None => "end",
    }
}

struct Explorer<'a> {
    recording: &'a Recording,
    homes: &'a Homes,
    plan: &'a Plan,
}

impl Explorer<'_> {
    /// Checks every cut. Returns the state that a randomly chosen one leaves.
    fn explore(&self, cuts: &BTreeSet<(usize, Model)>, tally: &mut Tally) -> Outcome<Start> {
        let events = &self.recording.events;
        let mut platter = self.recording.start.platter();
        let mut at = 0;
        let mut left = None;
        let mut random = Random::of(&[self.plan.seed, cuts.len() as u64]);
        let next = random.below(cuts.len().max(1) as u64) as usize;
        for (number, &(cut, model)) in cuts.iter().enumerate() {
            effort::step()?;
            events[at..cut].iter().for_each(|event| platter.apply(event));
            at = cut;
            let seed = random.next();
            let image = platter.cut(model, &mut Random::of(&[seed]));
            let looked = self.look(&image, cut, tally);
            if let Err(what) = looked {
                return Err(self.keep(Trouble {
                    recording: self.recording.clone(),
                    said: self.recording.said(cut),
                    cut,
                    model,
                    seed,
                    what,
                    procedure: None,
                }));
            }
            self.count(cut, model, tally);
            if number == next {
                left = Some(self.recording.after_cut(cut, image));
            }
        }
        left.ok_or_else(|| "nothing was recorded".to_owned())
    }

    /// Kills the process at some points. The next process opens the remaining files, and then power fails.
    fn kill(
        &self,
        options: &Options,
        wanted: u64,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Outcome<()> {
        for _ in 0..self.plan.cuts_each.div_ceil(CUTS_FOR_EACH_KILL) {
            if tally.cuts >= wanted {
                break;
            }
            let start = self.recording.after_kill(random);
            let seed = random.next();
            let generation = self.recording.generation + 1;
            // A process without operations writes no flush mark.
            let operations = 2 * random.below(2);
            let work = Work { seed, generation, writers: 2, operations, faulty: false };
            let next = Recording::make(start, work, options.clone(), &self.homes.mounted)?;
            tally.kills += 1;
            let mut cuts = next.cuts(CUTS_EACH_KILLED.min(wanted - tally.cuts), random);
            // Data visible right after opening must survive, and so must everything acknowledged at the end.
            let ends = [next.opening() + 1, next.events.len()];
            cuts.extend(ends.map(|at| (at.min(next.events.len()), Model::Nothing)));
            Explorer { recording: &next, ..*self }.explore(&cuts, tally)?;
        }
        Ok(())
    }

    fn look(&self, image: &Image, cut: usize, tally: &mut Tally) -> Outcome<()> {
        let said = self.recording.said(cut);
        settle(image, &said, &self.homes.image, tally)
    }

    fn count(&self, cut: usize, model: Model, tally: &mut Tally) {
        let recovering = cut <= self.recording.opening();
        tally.cuts += 1;
        tally.during_recovery += u64::from(recovering && self.recording.generation > 1);
        *tally.models.entry(model).or_default() += 1;
        *tally.kinds.entry(kind(self.recording.events.get(cut))).or_default() += 1;
    }

    /// Saves a violation, so that it can be replayed.
    fn keep(&self, trouble: Trouble) -> String {
        let kept = trouble.save(&self.plan.keep);
        let Trouble { cut, model, what, recording, .. } = &trouble;
        let before = recording.events.get(*cut);
        format!(
            "a cut at event {cut} of {} (before a {}), model {model}, seed {}: {what}\n{kept}",
            recording.events.len(),
            kind(before),
            self.plan.seed
        )
    }
}

/// Opens an image and checks it against the journal.
pub fn settle(
    image: &Image,
    said: &[(u64, String)],
    home: &Path,
    tally: &mut Tally,
) -> Outcome<()> {
    image.write(home).map_err(|error| format!("writing an image: {error}"))?;
    settle_at(&home.join(DATABASE), &options(), said, tally)
}

/// Opens a database and checks it against the journal.
pub fn settle_at(
    directory: &Path,
    options: &Options,
    said: &[(u64, String)],
    tally: &mut Tally,
) -> Outcome<()> {
    let db = options.clone().open(directory);
    let db = db.map_err(|error| format!("LOST: opening after the cut: {error}"))?;
    let report = db.open_report();
    tally.torn += u64::from(report.cut.is_some());
    tally.rebuilt += u64::from(report.rebuilt.is_some());
    let generation = said.last().map_or(0, |(generation, _)| *generation);
    let mut account = Account::new(generation);
    account.check(&db, runs(said)?, Look { everything: true, since: 0, generation })?;
    tally.acknowledged += account.acknowledged();
    tally.unsynced_lost += account.unsynced_lost();
    db.close().map_err(|error| format!("closing: {error}"))
}
