use crate::handles::{HandleKind, handle_kind};
use crate::model::Model;
use crate::world::{START_MS, World, job, name};
use mainstay::{Code, Result};
use mainstay_jobs::{Grant, Retry, Settings, State};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Submit(u8, i32, Option<i64>, Vec<u8>),
    Claim,
    Heartbeat(usize, bool),
    Complete(usize),
    Fail(usize, bool),
    Cancel(u8),
    Retry(u8),
    Sweep,
    Pass(u64),
    ClockBack(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let id = 0..8_u8;
    let grant = any::<usize>();
    let run_at = prop::option::weighted(0.3, -50_000..50_000_i64);
    let depends_on = prop::collection::btree_set(0..8_u8, 0..3);
    prop_oneof![
        8 => (id.clone(), -1..2_i32, run_at, depends_on)
            .prop_map(|(id, p, at, on)| Act::Submit(id, p, at, on.into_iter().collect())),
        8 => Just(Act::Claim),
        2 => (grant, any::<bool>()).prop_map(|(g, step)| Act::Heartbeat(g, step)),
        5 => grant.prop_map(Act::Complete),
        4 => (grant, any::<bool>()).prop_map(|(g, again)| Act::Fail(g, again)),
        1 => id.clone().prop_map(Act::Cancel),
        2 => id.prop_map(Act::Retry),
        3 => Just(Act::Sweep),
        4 => prop_oneof![Just(1_u64), 1..40_000_u64].prop_map(Act::Pass),
        1 => (1..100_000_u64).prop_map(Act::ClockBack),
    ]
}

fn outcome(result: Result<State>) -> std::result::Result<State, Code> {
    result.map_err(|error| error.code())
}

/// The implementation and its model, side by side.
struct Pair {
    world: World,
    model: Model,
    grants: Vec<Grant>,
}

impl Pair {
    /// One of the grants so far, including old ones.
    fn grant(&self, choice: usize) -> Option<(usize, &Grant)> {
        let place = choice.checked_rem(self.grants.len())?;
        Some((place, &self.grants[place]))
    }

    fn run(
        &mut self,
        act: &Act,
        handle_kind: HandleKind,
    ) -> std::result::Result<(), TestCaseError> {
        let now_us = self.world.jobs.now_us().unwrap();
        let now_ms = now_us / 1000;
        let jobs = handle_kind.of(&self.world.jobs);
        let (real, modelled) = match act {
            Act::Submit(id, priority, run_at, depends_on) => {
                let run_at = run_at.map(|offset| now_ms.saturating_add_signed(offset));
                let mut new = job(&id.to_string()).priority(*priority).max_retries(2);
                new = run_at.into_iter().fold(new, |new, at| new.run_at_ms(at));
                new = depends_on.iter().fold(new, |new, on| new.depends_on(&on.to_string()));
                let what = (*priority, run_at, depends_on.clone());
                (jobs.submit(&new), self.model.submit(*id, what, now_us))
            }
            Act::Claim => {
                let claimed = jobs.claim("t", "w").unwrap();
                let id = self.model.claim(now_ms).map(|id| name(&id.to_string()));
                prop_assert_eq!(claimed.as_ref().map(|one| &one.grant.name), id.as_ref());
                self.grants.extend(claimed.map(|one| one.grant));
                prop_assert_eq!(self.grants.len(), self.model.grants());
                return Ok(());
            }
            Act::Sweep => {
                let report = jobs.sweep().unwrap();
                prop_assert_eq!((report.retried, report.failed), self.model.sweep(now_us));
                return Ok(());
            }
            Act::Pass(ms) => {
                self.world.pass_ms(*ms);
                return Ok(());
            }
            Act::ClockBack(ms) => {
                self.world.clock.set_wall((START_MS - ms) * 1000);
                return Ok(());
            }
            Act::Cancel(id) => (jobs.cancel(&name(&id.to_string())), self.model.cancel(*id)),
            Act::Retry(id) => (jobs.retry(&name(&id.to_string())), self.model.retry(*id, now_us)),
            Act::Heartbeat(choice, _) | Act::Complete(choice) | Act::Fail(choice, _) => {
                let Some((place, grant)) = self.grant(*choice) else { return Ok(()) };
                match act {
                    Act::Heartbeat(_, true) => {
                        (jobs.step(grant, 1), self.model.heartbeat(place, now_ms, true))
                    }
                    Act::Heartbeat(..) => {
                        (jobs.heartbeat(grant), self.model.heartbeat(place, now_ms, false))
                    }
                    Act::Fail(_, again) => {
                        let retry = if *again { Retry::Now } else { Retry::Never };
                        (jobs.fail(grant, "no", retry), self.model.fail(place, *again, now_us))
                    }
                    _ => (jobs.complete(grant), self.model.complete(place)),
                }
            }
        };
        prop_assert_eq!(outcome(real), modelled);
        Ok(())
    }

    /// Compares all visible state with the model.
    fn check(&self) -> std::result::Result<(), TestCaseError> {
        for (id, expected) in &self.model.jobs {
            let job = self.world.jobs.get(&name(&id.to_string())).unwrap().unwrap();
            let seen = (job.state, job.retry_count, job.state.is_held());
            let expected = (expected.state, expected.retry_count, expected.state.is_held());
            prop_assert_eq!(seen, expected, "job {}", id);
            prop_assert_eq!(job.timeout_at.is_some(), job.state.is_held(), "job {}", id);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn jobs_do_what_the_model_does_through_every_face(
        acts in prop::collection::vec((act(), handle_kind()), 0..80),
    ) {
        let world = World::with(Settings::default());
        let mut pair = Pair { world, model: Model::default(), grants: Vec::new() };
        for (act, handle_kind) in &acts {
            pair.run(act, *handle_kind)?;
            pair.check()?;
        }
    }
}
