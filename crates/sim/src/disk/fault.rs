//! Fault injection: the calls of a simulated disk that fail, and the way they fail.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The kinds of disk calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Creates a file or a directory.
    Make,
    /// Reads from a file.
    Read,
    /// Writes to a file, or changes its length.
    Write,
    /// Renames an entry.
    Rename,
    /// Removes a name.
    Remove,
    /// Syncs a file.
    Sync,
    /// Syncs a directory.
    SyncDir,
}

impl Action {
    /// All kinds of calls.
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

/// The way a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Fails without any effect.
    Io,
    /// Fails with a full disk and without any effect.
    Full,
    /// Writes a part of the bytes and returns its length.
    Short,
    /// Fails, but has a partial effect: half of a write, or the whole rename. A failed sync drops the dirty
    /// pages, as Linux does by marking them clean.
    Half,
    /// Fails, but has its full effect: a whole write, or a durable rename or sync.
    After,
    /// Power fails during the call. It has started, and its result is unknown.
    Cut,
    /// Power is off: the call has no effect.
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

/// Planned faults, and counters of calls. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Number of calls by kind.
    counts: [u64; Action::ALL.len()],
    plan: Option<Plan>,
    power: Power,
    /// The first call that failed as planned.
    hit: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Power {
    #[default]
    On,
    /// Power stays on for this many further calls.
    For(u64),
    Off,
}

/// A fault plan: of the calls of one kind on matching paths, the first `before` succeed and the next `many`
/// fail.
#[derive(Clone, Copy, Debug)]
struct Plan {
    action: Action,
    /// The suffix of matching paths.
    place: &'static str,
    before: u64,
    many: u64,
    fault: Fault,
}

impl Plan {
    /// Accounts for a matching call. Returns whether it fails.
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
    /// Makes `many` calls of a kind fail, after `n` more of them have succeeded.
    pub fn plan(&self, action: Action, n: u64, many: u64, fault: Fault) {
        self.set(Plan { action, place: "", before: n, many, fault });
    }

    /// Makes one call of a kind fail on a path that ends with `place`, after `n` more such calls have
    /// succeeded.
    pub fn plan_at(&self, action: Action, place: &'static str, n: u64, fault: Fault) {
        self.set(Plan { action, place, before: n, many: 1, fault });
    }

    fn set(&self, plan: Plan) {
        let mut state = self.state();
        state.plan = Some(plan);
        state.hit = None;
    }

    /// Makes power fail at a call of any kind, after `n` more calls. It stays off: the surviving files form
    /// another disk.
    pub fn cut_power(&self, n: u64) {
        self.state().power = Power::For(n);
    }

    /// Makes power fail now, between calls.
    pub fn cut_power_now(&self) {
        self.state().power = Power::Off;
    }

    /// Cancels a planned power failure that has not happened yet.
    pub fn keep_power(&self) {
        let power = &mut self.state().power;
        if matches!(power, Power::For(_)) {
            *power = Power::On;
        }
    }

    /// Returns whether power is on.
    pub fn has_power(&self) -> bool {
        !matches!(self.state().power, Power::Off)
    }

    /// Removes the plan. Returns the first call that failed.
    pub fn clear(&self) -> Option<String> {
        let mut state = self.state();
        state.plan = None;
        state.hit.take()
    }

    /// Removes the plan.
    pub fn clear_plan(&self) {
        self.state().plan = None;
    }

    /// Returns whether a rename may happen although it reports a failure.
    pub fn may_rename_unseen(&self) -> bool {
        let plan = self.state().plan;
        plan.is_some_and(|plan| {
            plan.action == Action::Rename && matches!(plan.fault, Fault::Half | Fault::After)
        })
    }

    /// The number of calls of a kind.
    pub fn count(&self, action: Action) -> u64 {
        self.state().counts[action as usize]
    }

    /// Registers a call. Returns the fault with which it fails, if any.
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
