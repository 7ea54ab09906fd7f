//! Faults of a disk: which call of which kind fails, and how.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What a program asks a disk for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// To make a file or a directory.
    Make,
    /// To read.
    Read,
    /// To write, or to change a file's length.
    Write,
    /// To change a name.
    Rename,
    /// To remove a name.
    Remove,
    /// To sync a file.
    Sync,
    /// To sync a directory.
    SyncDir,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 7] = [
        Action::Make,
        Action::Read,
        Action::Write,
        Action::Rename,
        Action::Remove,
        Action::Sync,
        Action::SyncDir,
    ];
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It fails; nothing has happened.
    Io,
    /// There is no room; nothing has happened.
    Full,
    /// A part of it is written, and no more is said than how much.
    Short,
    /// It fails, and some of it has happened all the same: half of a write, or all of a renaming. What a sync that fails
    /// should have made durable is dropped, as Linux does it: pages count as clean.
    Half,
    /// It fails, and all of it has happened all the same: a write, or for good a renaming or a sync.
    After,
    /// Power fails right now: what was asked for is begun, and nobody is told how it ends.
    Cut,
    /// There is no power; nothing has happened.
    Off,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Io => "EIO",
            Fault::Full => "ENOSPC",
            Fault::Short => "short",
            Fault::Half => "EIO half way",
            Fault::After => "EIO when it is done",
            Fault::Cut => "a power cut",
            Fault::Off => "no power",
        })
    }
}

/// Faults that are to happen, and what was asked for so far.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By action: what was asked for since the last look.
    counts: [u64; Action::ALL.len()],
    plan: Option<Plan>,
    power: Power,
    /// Where it happened first.
    hit: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Power {
    #[default]
    On,
    /// For so many calls more.
    For(u64),
    Off,
}

/// Of the calls of a kind on such a path, so many are as ever, and then so many fail.
#[derive(Clone, Copy, Debug)]
struct Plan {
    action: Action,
    /// What the path ends with.
    place: &'static str,
    before: u64,
    many: u64,
    fault: Fault,
}

impl Plan {
    /// A call that it is about is made; says whether it fails.
    fn comes_to_pass(&mut self) -> bool {
        let fails = self.before == 0 && self.many > 0;
        match self.before {
            0 => self.many = self.many.saturating_sub(1),
            _ => self.before -= 1,
        }
        fails
    }
}

impl Faults {
    /// The n-th call of a kind from now on fails, and so many in all from there.
    pub fn plan(&self, action: Action, n: u64, many: u64, fault: Fault) {
        self.set(Plan { action, place: "", before: n, many, fault });
    }

    /// The n-th call of a kind from now on fails that is on something whose path ends so.
    pub fn plan_at(&self, action: Action, place: &'static str, n: u64, fault: Fault) {
        self.set(Plan { action, place, before: n, many: 1, fault });
    }

    fn set(&self, plan: Plan) {
        let mut state = self.state();
        state.plan = Some(plan);
        state.hit = None;
    }

    /// Power fails at the n-th call from now on, of whatever kind. It does not come back: what is left is another disk.
    pub fn cut_power(&self, n: u64) {
        self.state().power = Power::For(n);
    }

    /// Power fails now, between calls.
    pub fn cut_power_now(&self) {
        self.state().power = Power::Off;
    }

    /// Power does not fail, if it has not yet.
    pub fn keep_power(&self) {
        let power = &mut self.state().power;
        if matches!(power, Power::For(_)) {
            *power = Power::On;
        }
    }

    /// Whether there is power.
    pub fn has_power(&self) -> bool {
        !matches!(self.state().power, Power::Off)
    }

    /// Nothing fails any more; says where something did.
    pub fn clear(&self) -> Option<String> {
        let mut state = self.state();
        state.plan = None;
        state.hit.take()
    }

    /// Nothing fails any more.
    pub fn clear_plan(&self) {
        self.state().plan = None;
    }

    /// Whether something may get another name, and nobody is told.
    pub fn may_rename_unseen(&self) -> bool {
        let plan = self.state().plan;
        plan.is_some_and(|plan| {
            plan.action == Action::Rename && matches!(plan.fault, Fault::Half | Fault::After)
        })
    }

    /// How often something was asked for.
    pub fn count(&self, action: Action) -> u64 {
        self.state().counts[action as usize]
    }

    /// Something is asked for; says how it fails, if it does.
    pub fn ask(&self, action: Action, whom: impl Fn() -> String) -> Option<Fault> {
        let mut state = self.state();
        match &mut state.power {
            Power::On => {}
            Power::For(0) => {
                state.power = Power::Off;
                return Some(Fault::Cut);
            }
            Power::For(calls) => *calls -= 1,
            Power::Off => return Some(Fault::Off),
        }
        state.counts[action as usize] += 1;
        let plan = state.plan.as_mut().filter(|plan| plan.action == action)?;
        if !plan.place.is_empty() && !whom().ends_with(plan.place) || !plan.comes_to_pass() {
            return None;
        }
        let fault = plan.fault;
        state.hit.get_or_insert_with(|| format!("{action:?} of {}", whom()));
        Some(fault)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
