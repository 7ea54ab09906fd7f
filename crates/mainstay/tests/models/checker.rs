//! Model checker: runs a model under many schedules and reports the first failure.

use mainstay::fault_points::{InjectedFault, plant};
use shuttle::scheduler::{
    PctScheduler, RandomScheduler, ReplayScheduler, UncontrolledNondeterminismCheckScheduler,
};
use shuttle::{Config, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A program of a few threads that panics on a violation.
pub type Model = fn();

/// Number of schedules. Half of them are random, and half have few switches at random places.
const SCHEDULES: usize = 2000;

/// Number of context switches of a schedule, enough to find nearly every bug.
const DEPTH: usize = 3;

/// Maximal number of steps, so that a livelock ends.
const STEPS: usize = 100_000;

const STACK_BYTES: usize = 1 << 20;

/// An injected fault applies to all databases of the process, so a test that injects one must run alone.
static PLANTING: RwLock<()> = RwLock::new(());

/// Fails if the model fails under any schedule.
pub fn holds(name: &str, model: Model) {
    let _nobody_plants = PLANTING.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Ok(schedule) = std::env::var("MAINSTAY_REPLAY") {
        let scheduler = ReplayScheduler::new_from_encoded(schedule.trim());
        Runner::new(scheduler, config()).run(model);
        return;
    }
    let seed = seed();
    println!("{name}: {} schedules, seed {seed}", schedules());
    run_random(seed, model);
    run_few_switches(seed, model);
}

/// Fails if the model passes with an injected fault, under as many schedules as without it, or fails with
/// another message.
pub fn finds(bug: InjectedFault, model: Model, words: &str) {
    let _alone = PLANTING.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    plant(Some(bug));
    let seed = seed();
    let random = first_failure(model, |model| run_random(seed, model));
    let few = first_failure(model, |model| run_few_switches(seed, model));
    plant(None);
    println!("{bug:?}: among random schedules {random:?}, among those of few switches {few:?}");
    let found: Vec<_> = random.into_iter().chain(few).collect();
    assert!(!found.is_empty(), "{bug:?} is not found");
    assert!(found.iter().any(|failure| failure.words.contains(words)), "{bug:?}: {found:?}");
}

/// Fails if a model behaves differently when a schedule is repeated.
pub fn repeats(model: Model) {
    let _nobody_plants = PLANTING.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let scheduler = RandomScheduler::new_from_seed(seed(), schedules() / 10);
    let twice = UncontrolledNondeterminismCheckScheduler::new(scheduler);
    Runner::new(twice, config()).run(model);
}

/// The schedule under which a model failed, counted from one, and the message.
#[derive(Debug)]
#[allow(dead_code, reason = "shown")]
struct Failure {
    schedule: usize,
    words: String,
}

fn first_failure<R>(model: Model, run: R) -> Option<Failure>
where
    R: FnOnce(Box<dyn Fn() + Send + Sync>),
{
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    // SeqCst: a plain counter of this test, speed does not matter.
    BEGUN.store(0, Ordering::SeqCst);
    let counted = Box::new(move || {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        model();
    });
    let panic = catch_unwind(AssertUnwindSafe(|| run(counted))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let words = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Some(Failure { schedule: BEGUN.load(Ordering::SeqCst), words: words.unwrap_or_default() })
}

fn run_random(seed: u64, model: impl Fn() + Send + Sync + 'static) {
    let scheduler = RandomScheduler::new_from_seed(seed, schedules() / 2);
    Runner::new(scheduler, config()).run(model);
}

fn run_few_switches(seed: u64, model: impl Fn() + Send + Sync + 'static) {
    let scheduler = PctScheduler::new_from_seed(seed, DEPTH, schedules() / 2);
    Runner::new(scheduler, config()).run(model);
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    // `main.rs` documents that weak memory orders are not modelled.
    config.silence_warnings = true;
    config
}

fn schedules() -> usize {
    number("MAINSTAY_SCHEDULES").map_or(SCHEDULES, |many| many as usize)
}

fn seed() -> u64 {
    number("MAINSTAY_SEED").unwrap_or(20_260_101)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}
