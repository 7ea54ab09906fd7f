//! Default reducer: a pure state machine over a run and its steps.
//!
//! ```text
//!   PENDING --RunApproved--> APPROVED --RunStarted--> RUNNING <--RunPaused, RunResumed--> PAUSED
//!      '-------------------RunStarted-------------------^ |
//!   any non-final state --RunFailed, RunCancelled--> FAILED, CANCELLED       '--RunCompleted--> COMPLETED
//!
//!   step: PENDING --StepStarted--> RUNNING --StepCompleted, StepFailed--> SUCCESS, FAILED
//!            '--StepSkipped--> SKIPPED                  FAILED --StepRetried--> PENDING, the next attempt
//! ```
//!
//! A step event counts for the attempt that it names (`logicalAttemptId`). `StepRetried` names the attempt
//! that it opens. An event without an attempt counts for the newest one. Exception: if the newest attempt was
//! opened by name, a missing name means the first attempt, as in idempotency keys. An event for an attempt
//! that is closed or not yet open is illegal.
//!
//! The reducer is pure: equal events give equal snapshots on every machine and in every replay.

use super::snapshot::{AttemptSnapshot, INCONSISTENT, StepSnapshot};
use super::{CanonicalEvent, RunSnapshot, RunStatus, StepStatus};

/// The result of applying an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The event changed the run.
    Applied,
    /// The reducer does not know the event type. Nothing changed.
    Unknown,
    /// The event is not a valid successor of the earlier events. Nothing changed except the inconsistency
    /// flag.
    Illegal(String),
}

/// Applies an event to a snapshot.
///
/// ```
/// use mainstay_model::{Instant, Judgement, NewEvent, RunSnapshot, RunStatus, reduce};
/// let now = Instant::of_us(0);
/// let event = |kind, seq| NewEvent::new("r", kind).stored(seq, "e".into(), "k".into(), now.clone());
/// let mut run = RunSnapshot::new("r");
/// assert_eq!(reduce(&mut run, &event("RunStarted", 1)), Judgement::Applied);
/// assert_eq!(reduce(&mut run, &event("CoffeeMade", 2)), Judgement::Unknown);
/// assert!(matches!(reduce(&mut run, &event("RunApproved", 3)), Judgement::Illegal(_)));
/// assert_eq!((run.status, run.last_event_seq, run.is_inconsistent()), (RunStatus::Running, 3, true));
/// ```
pub fn reduce(run: &mut RunSnapshot, event: &CanonicalEvent) -> Judgement {
    let step = event.step_id.as_deref();
    let attempt = event.logical_attempt_id.as_deref();
    reduce_parts(run, event.run_seq, &event.event_type, step, attempt)
}

/// Applies an event given by its parts, for callers that have not decoded the whole event. See [`reduce`].
///
/// If no event ever names an attempt, the results equal those of versions that ignored attempts.
pub fn reduce_parts(
    run: &mut RunSnapshot,
    seq: u64,
    event_type: &str,
    step: Option<&str>,
    attempt: Option<&str>,
) -> Judgement {
    run.last_event_seq = seq;
    let event = Event { seq, event_type, attempt };
    let judgement = match step {
        Some(step) if event_type.starts_with("Step") => change_step(run, step, event),
        _ => change_run(run, event),
    };
    if matches!(judgement, Judgement::Illegal(_)) {
        run.flags.insert(INCONSISTENT.to_owned());
    }
    judgement
}

/// The parts of an event that the reducer uses, besides its step.
#[derive(Clone, Copy)]
struct Event<'e> {
    seq: u64,
    event_type: &'e str,
    attempt: Option<&'e str>,
}

fn change_run(run: &mut RunSnapshot, event: Event<'_>) -> Judgement {
    use RunStatus::{Approved, Cancelled, Completed, Failed, Paused, Pending, Running};
    let (from, becomes): (&[RunStatus], _) = match event.event_type {
        "RunApproved" => (&[Pending], Approved),
        "RunStarted" => (&[Pending, Approved], Running),
        "RunPaused" => (&[Running], Paused),
        "RunResumed" => (&[Paused], Running),
        "RunCompleted" => (&[Running], Completed),
        "RunFailed" => (&[Pending, Approved, Running, Paused], Failed),
        "RunCancelled" => (&[Pending, Approved, Running, Paused], Cancelled),
        _ => return Judgement::Unknown,
    };
    if !from.contains(&run.status) {
        return illegal(run, event, &format!("the run is {:?}", run.status));
    }
    run.status = becomes;
    Judgement::Applied
}

fn change_step(run: &mut RunSnapshot, name: &str, event: Event<'_>) -> Judgement {
    use StepStatus::{Failed, Pending, Running, Skipped, Success};
    let (from, becomes) = match event.event_type {
        "StepStarted" => (Pending, Running),
        "StepCompleted" => (Running, Success),
        "StepFailed" => (Running, Failed),
        "StepSkipped" => (Pending, Skipped),
        "StepRetried" => (Failed, Pending),
        _ => return Judgement::Unknown,
    };
    // While a run is paused, running steps may end, but none may start. Before the run starts and after it
    // ends, no step event is legal.
    let is_time = match (run.status, becomes) {
        (RunStatus::Running, _) => true,
        (RunStatus::Paused, becomes) => becomes != Running,
        _ => false,
    };
    if !is_time {
        return illegal(run, event, &format!("the run is {:?}", run.status));
    }
    let attempts = run.steps.get(name).map_or(&[][..], |step| &step.attempts);
    let is_its_turn = match becomes {
        Pending => can_open(attempts, event.attempt),
        _ => is_newest(attempts, event.attempt),
    };
    if !is_its_turn {
        return illegal(run, event, &wrong_attempt(name, attempts, event.attempt));
    }
    let status = run.steps.get(name).map_or(Pending, |step| step.status);
    if status != from {
        return illegal(run, event, &format!("step `{name}` is {status:?}"));
    }
    // Most events concern an existing step, so the step's name is not copied.
    match run.steps.get_mut(name) {
        Some(step) => move_step(step, becomes, event),
        None => move_step(run.steps.entry(name.to_owned()).or_default(), becomes, event),
    }
    Judgement::Applied
}

/// Returns whether an event belongs to the newest attempt. For a step without attempts, the event may open
/// the first.
fn is_newest(attempts: &[AttemptSnapshot], named: Option<&str>) -> bool {
    let Some(newest) = attempts.last() else { return named.is_none_or(can_be_first) };
    match (named, &newest.logical_attempt_id) {
        (Some(named), Some(id)) => named == id,
        (Some(named), None) => number(named) == Some(attempts.len() as u64),
        // The step names its attempts, so a missing name means the first attempt.
        (None, Some(_)) => attempts.len() == 1,
        (None, None) => true,
    }
}

/// Returns whether `StepRetried` may open an attempt of this name. It must be the number after the newest
/// attempt's, or an unused name that is not a number.
fn can_open(attempts: &[AttemptSnapshot], named: Option<&str>) -> bool {
    let Some(named) = named else { return true };
    let newest = match attempts.last().and_then(|newest| newest.logical_attempt_id.as_deref()) {
        Some(id) => number(id),
        None => Some(attempts.len() as u64),
    };
    match (number(named), newest) {
        (Some(number), Some(newest)) => newest.checked_add(1) == Some(number),
        _ => attempts.iter().all(|one| one.logical_attempt_id.as_deref() != Some(named)),
    }
}

/// Returns whether a first attempt may have this name. Producers count from 1, some from 0, and some use
/// names.
fn can_be_first(named: &str) -> bool {
    number(named).is_none_or(|number| number <= 1)
}

/// Parses the name of an attempt as a number in canonical form.
fn number(named: &str) -> Option<u64> {
    named.parse().ok().filter(|number: &u64| number.to_string() == named)
}

/// Advances the newest attempt. For `StepRetried`, the ended attempt stays as it is and a new one is opened.
fn move_step(step: &mut StepSnapshot, becomes: StepStatus, event: Event<'_>) {
    let seq = event.seq;
    if step.attempts.is_empty() || becomes == StepStatus::Pending {
        // The first attempt is called `1` by default, so this name is not stored.
        let says_nothing = |named: &&str| step.attempts.is_empty() && *named == "1";
        let named = event.attempt.filter(|named| !says_nothing(named));
        let logical_attempt_id = named.map(str::to_owned);
        step.attempts.push(AttemptSnapshot { logical_attempt_id, ..Default::default() });
    }
    step.status = becomes;
    let Some(attempt) = step.attempts.last_mut() else { return };
    attempt.status = becomes;
    match becomes {
        StepStatus::Pending => {}
        StepStatus::Running => attempt.started_seq = Some(seq),
        StepStatus::Success | StepStatus::Failed | StepStatus::Skipped => {
            attempt.ended_seq = Some(seq);
        }
    }
}

#[cold]
fn wrong_attempt(step: &str, attempts: &[AttemptSnapshot], named: Option<&str>) -> String {
    let newest = attempts.last().and_then(|newest| newest.logical_attempt_id.clone());
    let newest = newest.unwrap_or_else(|| attempts.len().max(1).to_string());
    let named = named.unwrap_or("1");
    format!("step `{step}` is at attempt `{newest}`, the event names attempt `{named}`")
}

#[cold]
fn illegal(run: &RunSnapshot, event: Event<'_>, why: &str) -> Judgement {
    let Event { event_type, seq, .. } = event;
    Judgement::Illegal(format!("event {seq} of run `{}`, {event_type}: {why}", run.run_id))
}

#[cfg(test)]
mod tests {
    use super::super::{Instant, NewEvent};
    use super::*;
    use proptest::prelude::*;

    const RUN_EVENTS: [&str; 7] = [
        "RunApproved",
        "RunStarted",
        "RunPaused",
        "RunResumed",
        "RunCompleted",
        "RunFailed",
        "RunCancelled",
    ];
    const STEP_EVENTS: [&str; 5] =
        ["StepStarted", "StepCompleted", "StepFailed", "StepSkipped", "StepRetried"];

    fn event(seq: u64, kind: &str, step: Option<&str>) -> CanonicalEvent {
        let new = NewEvent::new("r", kind);
        let new = step.into_iter().fold(new, |new, step| new.step(step));
        new.stored(seq, "e".into(), "k".into(), Instant::of_us(0))
    }

    fn fold(events: &[(&str, Option<&str>)]) -> (RunSnapshot, Vec<Judgement>) {
        let mut run = RunSnapshot::new("r");
        let judge = |(place, (kind, step)): (usize, &(&str, Option<&str>))| {
            reduce(&mut run, &event(place as u64 + 1, kind, *step))
        };
        let judgements = events.iter().enumerate().map(judge).collect();
        (run, judgements)
    }

    #[test]
    fn a_run_goes_its_way_and_a_retry_opens_the_next_attempt() {
        let (run, judgements) = fold(&[
            ("RunApproved", None),
            ("RunStarted", None),
            ("StepStarted", Some("a")),
            ("StepFailed", Some("a")),
            ("StepRetried", Some("a")),
            ("StepStarted", Some("a")),
            ("RunPaused", None),
            ("StepCompleted", Some("a")),
            ("RunResumed", None),
            ("StepSkipped", Some("b")),
            ("RunCompleted", None),
        ]);
        assert!(judgements.iter().all(|one| *one == Judgement::Applied), "{judgements:?}");
        assert_eq!((run.status, run.last_event_seq), (RunStatus::Completed, 11));
        let first = &run.steps["a"].attempts[0];
        let second = &run.steps["a"].attempts[1];
        assert_eq!(
            (first.status, first.started_seq, first.ended_seq),
            (StepStatus::Failed, Some(3), Some(4))
        );
        assert_eq!((second.status, second.ended_seq), (StepStatus::Success, Some(8)));
        assert_eq!(run.steps["b"].status, StepStatus::Skipped);
        assert!(!run.is_inconsistent());
    }

    #[test]
    fn what_cannot_follow_changes_nothing_but_the_mark() {
        let (before, _) = fold(&[("RunStarted", None), ("StepStarted", Some("a"))]);
        for (kind, step) in [
            ("RunStarted", None),
            ("RunApproved", None),
            ("RunResumed", None),
            ("StepStarted", Some("a")),
            ("StepRetried", Some("a")),
            ("StepCompleted", Some("b")),
        ] {
            let mut run = before.clone();
            let judgement = reduce(&mut run, &event(3, kind, step));
            assert!(matches!(judgement, Judgement::Illegal(_)), "{kind}");
            assert!(run.is_inconsistent());
            let expected =
                RunSnapshot { last_event_seq: 3, flags: run.flags.clone(), ..before.clone() };
            assert_eq!(run, expected, "{kind}");
        }
    }

    #[test]
    fn nothing_follows_the_end() {
        for end in ["RunCompleted", "RunFailed", "RunCancelled"] {
            let (ended, _) = fold(&[("RunStarted", None), ("StepStarted", Some("a")), (end, None)]);
            assert!(ended.status.is_terminal());
            let runs = RUN_EVENTS.map(|kind| (kind, None));
            for (kind, step) in runs.into_iter().chain(STEP_EVENTS.map(|kind| (kind, Some("a")))) {
                let judgement = reduce(&mut ended.clone(), &event(4, kind, step));
                assert!(matches!(judgement, Judgement::Illegal(_)), "{end}, then {kind}");
            }
        }
    }

    /// Folds events of step `a` of a running run, each with the attempt that it names.
    fn fold_attempts(events: &[(&str, Option<&str>)]) -> (RunSnapshot, Vec<u64>) {
        let (mut run, _) = fold(&[("RunStarted", None)]);
        let mut illegal = Vec::new();
        for (place, (kind, attempt)) in events.iter().enumerate() {
            let mut event = event(place as u64 + 2, kind, Some("a"));
            event.logical_attempt_id = attempt.map(str::to_owned);
            if let Judgement::Illegal(why) = reduce(&mut run, &event) {
                assert!(why.contains("attempt") || why.contains("step `a` is"), "{why}");
                illegal.push(event.run_seq);
            }
        }
        (run, illegal)
    }

    fn statuses(run: &RunSnapshot) -> Vec<StepStatus> {
        run.steps["a"].attempts.iter().map(|attempt| attempt.status).collect()
    }

    #[test]
    fn an_event_counts_for_the_attempt_that_it_names() {
        use StepStatus::{Failed, Success};
        // Attempts counted from 1, from 0, with names, and with the first one unnamed.
        for [first, second] in [
            [Some("1"), Some("2")],
            [Some("0"), Some("1")],
            [Some("x"), Some("y")],
            [None, Some("2")],
        ] {
            let (run, illegal) = fold_attempts(&[
                ("StepStarted", first),
                ("StepFailed", first),
                ("StepRetried", second),
                ("StepStarted", second),
                ("StepCompleted", first),
                ("StepCompleted", second),
            ]);
            assert_eq!(illegal, [6], "{first:?}, {second:?}");
            assert_eq!(statuses(&run), [Failed, Success]);
            assert_eq!(run.steps["a"].attempts[1].ended_seq, Some(7));
        }
    }

    #[test]
    fn what_names_no_attempt_is_of_the_newest_and_may_meet_its_number() {
        use StepStatus::{Failed, Success};
        let (run, illegal) = fold_attempts(&[
            ("StepStarted", None),
            ("StepFailed", Some("1")),
            ("StepRetried", None),
            ("StepStarted", Some("2")),
            ("StepCompleted", Some("1")),
            ("StepCompleted", None),
        ]);
        assert_eq!((illegal, statuses(&run)), (vec![6], vec![Failed, Success]));
    }

    #[test]
    fn an_attempt_is_opened_by_the_number_that_follows_or_by_a_new_name() {
        let failed = [("StepStarted", Some("1")), ("StepFailed", Some("1"))];
        for (named, is_open) in [("1", false), ("2", true), ("3", false), ("02", true), ("b", true)]
        {
            let (run, illegal) =
                fold_attempts(&[&failed[..], &[("StepRetried", Some(named))]].concat());
            assert_eq!(
                (illegal.is_empty(), statuses(&run).len() == 2),
                (is_open, is_open),
                "{named}"
            );
        }
        let (_, illegal) = fold_attempts(&[("StepStarted", Some("2"))]);
        assert_eq!(illegal, [2], "attempt 2 was never opened");
        let (_, illegal) = fold_attempts(&[("StepStarted", Some("1")), ("StepFailed", Some("2"))]);
        assert_eq!(illegal, [3]);
    }

    proptest! {
        /// Folding in two parts gives the same result as folding at once, and an ended attempt never changes.
        #[test]
        fn a_fold_may_be_cut_anywhere(
            kinds in prop::collection::vec((0..13_usize, 0..3_usize), 0..60),
            named in prop::collection::vec(0..6_usize, 60),
            cut in 0..60_usize,
        ) {
            let name = |which: usize| ["a", "b", "c"][which];
            let of = |&(kind, step): &(usize, usize)| match kind {
                0..7 => (RUN_EVENTS[kind], None),
                7..12 => (STEP_EVENTS[kind - 7], Some(name(step))),
                _ => ("Other", None),
            };
            let events: Vec<_> = kinds.iter().map(of).collect();
            let event = |place: usize| {
                let (kind, step) = events[place];
                let mut event = event(place as u64 + 1, kind, step);
                event.logical_attempt_id = [None, None, None, Some("1"), Some("2"), Some("x")][named[place]].map(str::to_owned);
                event
            };
            let mut whole = RunSnapshot::new("r");
            (0..events.len()).for_each(|place| drop(reduce(&mut whole, &event(place))));
            let mut run = RunSnapshot::new("r");
            for place in 0..events.len() {
                let ended: Vec<_> = attempts(&run).filter(|one| one.ended_seq.is_some()).cloned().collect();
                reduce(&mut run, &event(place));
                let all: Vec<_> = attempts(&run).cloned().collect();
                prop_assert!(ended.iter().all(|one| all.contains(one)));
                if place + 1 == cut {
                    let text = serde_json::to_string(&run).unwrap();
                    run = serde_json::from_str(&text).unwrap();
                }
            }
            prop_assert_eq!(run.hash(), whole.hash());
        }
    }

    fn attempts(run: &RunSnapshot) -> impl Iterator<Item = &AttemptSnapshot> {
        run.steps.values().flat_map(|step| &step.attempts)
    }
}
