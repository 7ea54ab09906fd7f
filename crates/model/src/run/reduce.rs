//! The reducer that every run has, unless it is given another: states of the run and of its steps.
//!
//! ```text
//!   PENDING --RunApproved--> APPROVED --RunStarted--> RUNNING <--RunPaused, RunResumed--> PAUSED
//!      '-------------------RunStarted-------------------^ |
//!   whatever has not ended --RunFailed, RunCancelled--> FAILED, CANCELLED    '--RunCompleted--> COMPLETED
//!
//!   step: PENDING --StepStarted--> RUNNING --StepCompleted, StepFailed--> SUCCESS, FAILED
//!            '--StepSkipped--> SKIPPED                  FAILED --StepRetried--> PENDING, the next attempt
//! ```
//!
//! It is pure: the same events give the same snapshot, whoever folds them and however often.

use super::snapshot::{AttemptSnapshot, INCONSISTENT, StepSnapshot};
use super::{CanonicalEvent, RunSnapshot, RunStatus, StepStatus};

/// What came of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It changed the run.
    Applied,
    /// It is not known to the reducer, and changed nothing.
    Unknown,
    /// It cannot follow those before it, and changed nothing but the mark that says so.
    Illegal(String),
}

/// Adds an event to a snapshot.
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
    reduce_parts(run, event.run_seq, &event.event_type, event.step_id.as_deref())
}

/// [`reduce`] for those who have not read all of the event: what it looks at is all it needs.
pub fn reduce_parts(
    run: &mut RunSnapshot,
    seq: u64,
    event_type: &str,
    step: Option<&str>,
) -> Judgement {
    run.last_event_seq = seq;
    let event = Event { seq, event_type };
    let judgement = match step {
        Some(step) if event_type.starts_with("Step") => change_step(run, step, event),
        _ => change_run(run, event),
    };
    if matches!(judgement, Judgement::Illegal(_)) {
        run.flags.insert(INCONSISTENT.to_owned());
    }
    judgement
}

/// What of an event is looked at, besides its step.
#[derive(Clone, Copy)]
struct Event<'e> {
    seq: u64,
    event_type: &'e str,
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
    // What runs may end while the run is paused; nothing begins then, and nothing at all before or behind.
    let is_time = match (run.status, becomes) {
        (RunStatus::Running, _) => true,
        (RunStatus::Paused, becomes) => becomes != Running,
        _ => false,
    };
    if !is_time {
        return illegal(run, event, &format!("the run is {:?}", run.status));
    }
    let status = run.steps.get(name).map_or(Pending, |step| step.status);
    if status != from {
        return illegal(run, event, &format!("step `{name}` is {status:?}"));
    }
    // Most events concern a step that there is: its name need not be copied.
    match run.steps.get_mut(name) {
        Some(step) => move_step(step, becomes, event.seq),
        None => move_step(run.steps.entry(name.to_owned()).or_default(), becomes, event.seq),
    }
    Judgement::Applied
}

/// Moves the newest attempt on; one that has ended stays as it is, and the next one is opened.
fn move_step(step: &mut StepSnapshot, becomes: StepStatus, seq: u64) {
    if step.attempts.is_empty() || becomes == StepStatus::Pending {
        step.attempts.push(AttemptSnapshot::default());
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
fn illegal(run: &RunSnapshot, event: Event<'_>, why: &str) -> Judgement {
    let Event { event_type, seq } = event;
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
        let (first, second) = (&run.steps["a"].attempts[0], &run.steps["a"].attempts[1]);
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

    proptest! {
        /// Folding in two parts is folding at once, and an attempt that has ended never changes.
        #[test]
        fn a_fold_may_be_cut_anywhere(
            kinds in prop::collection::vec((0..13_usize, 0..3_usize), 0..60),
            cut in 0..60_usize,
        ) {
            let name = |which: usize| ["a", "b", "c"][which];
            let of = |&(kind, step): &(usize, usize)| match kind {
                0..7 => (RUN_EVENTS[kind], None),
                7..12 => (STEP_EVENTS[kind - 7], Some(name(step))),
                _ => ("Other", None),
            };
            let events: Vec<_> = kinds.iter().map(of).collect();
            let (whole, _) = fold(&events);
            let mut run = RunSnapshot::new("r");
            for (place, (kind, step)) in events.iter().enumerate() {
                let ended: Vec<_> = attempts(&run).filter(|one| one.ended_seq.is_some()).cloned().collect();
                reduce(&mut run, &event(place as u64 + 1, kind, *step));
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
