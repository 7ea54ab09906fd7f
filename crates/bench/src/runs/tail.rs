//! Latency of a tail: the time until it sees an appended event, beyond the fsync that the append waits for.
//!
//! ```text
//!   appender:  before --append, synced--> acknowledged
//!   tail:                   waits -----------------------> seen          above the fsync = seen - acknowledged
//! ```
//!
//! The next event is appended after the tail has seen this one. In between, a plain fsync is measured.

use super::events::{self, Notes, Producer};
use crate::context::{Context, Outcome};
use crate::peers::bare_log::{BareLog, PAYLOAD_BYTES, Seat};
use crate::report::Row;
use mainstay::{Database, Options, RunTail};
use mainstay_server::histogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Upper limit for the tail's latency beyond the fsync, at the 99th percentile.
const LIMIT_MS: f64 = 2.0;
/// Number of other producers, which append to other runs, in the second form.
const OTHERS: usize = 16;
/// Longer than any working operation takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a tail waits before it checks for the end of the case.
const WAIT: Duration = Duration::from_millis(100);
const RUN: &str = "tailed";

/// Runs the case alone, with a target, and with other producers.
pub fn run(context: &mut Context) -> Outcome<()> {
    for (more, others) in [(String::new(), 0), (format!(", {OTHERS} other producers"), OTHERS)] {
        let case = format!("tail, append to seen{more}");
        if context.wants(&case) {
            let times = measure(context, others)?;
            report(context, &case, &times, others == 0)?;
        }
    }
    Ok(())
}

/// Times in nanoseconds.
struct Times {
    /// From the acknowledgement until the event is seen; 0 if it was seen before.
    above: Histogram,
    /// From the call until the event is seen.
    whole: Histogram,
    /// Duration of a plain fsync of about as many bytes.
    sync: Histogram,
}

fn measure(context: &Context, others: usize) -> Outcome<Times> {
    let directory = context.directory("tail")?;
    let count = context.either(5_000, 500);
    let database = Options::new().open(directory.path().join("ours"))?;
    let log = BareLog::create(directory.path())?;
    let notes = Notes::new();
    super::ours::fill(&database, notes.earlier(events::RUNS))?;
    let tail = database.runs().tail(RUN, 0)?;
    let (over, (seen, told)) = (AtomicBool::new(false), channel());
    std::thread::scope(|scope| {
        let tailing = scope.spawn(|| watch(tail, &seen, &over));
        let producers = start(scope, others, &database, &notes, &over);
        let times = append_and_wait(&database, &notes, &log, &told, count);
        over.store(true, Ordering::Relaxed);
        for producer in producers {
            producer.join().map_err(|_| "a producer panicked")??;
        }
        tailing.join().map_err(|_| "the tail panicked")??;
        times
    })
}

type Running<'s> = std::thread::ScopedJoinHandle<'s, Outcome<()>>;

fn start<'s>(
    scope: &'s Scope<'s, '_>,
    others: usize,
    database: &'s Database,
    notes: &'s Notes,
    over: &'s AtomicBool,
) -> Vec<Running<'s>> {
    let produce = move |number| {
        let runs = database.runs();
        let mut producer = Producer::new(notes, number, false);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                runs.append(producer.next().0.event())?;
            }
            Ok(())
        })
    };
    (0..others).map(produce).collect()
}

/// The tail: reports when each event was seen.
fn watch(mut tail: RunTail, seen: &Sender<(u64, Instant)>, over: &AtomicBool) -> Outcome<()> {
    while !over.load(Ordering::Relaxed) {
        let events = tail.next(100, WAIT)?;
        let now = Instant::now();
        for event in events {
            seen.send((event.run_seq, now))?;
        }
    }
    Ok(())
}

fn append_and_wait(
    database: &Database,
    notes: &Notes,
    log: &BareLog,
    seen: &Receiver<(u64, Instant)>,
    count: usize,
) -> Outcome<Times> {
    let runs = database.runs();
    let seat = Seat::new();
    let [above, whole, sync] = std::array::from_fn(|_| Histogram::new());
    for told in notes.of_run(RUN, count) {
        let event = told.event();
        let before = Instant::now();
        let appended = runs.append(event)?;
        let acknowledged = Instant::now();
        let (seq, seen) = seen.recv_timeout(PATIENCE)?;
        if seq != appended.run_seq {
            return Err(format!("event {} was to be seen, {seq} was", appended.run_seq).into());
        }
        above.record(nanos(acknowledged, seen));
        whole.record(nanos(before, seen));
        let before = Instant::now();
        log.append(&seat, &[0x5a; PAYLOAD_BYTES])?;
        sync.record(nanos(before, Instant::now()));
    }
    Ok(Times { above, whole, sync })
}

fn nanos(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}

fn report(context: &mut Context, case: &str, times: &Times, has_bar: bool) -> Outcome<()> {
    let all = [&times.above, &times.whole, &times.sync].map(Histogram::percentiles);
    let [Some(above), Some(whole), Some(sync)] = all else {
        return Err(format!("{case}: nothing was measured").into());
    };
    let ms = |nanos: u64| nanos as f64 / 1e6;
    for (place, name) in ["p50", "p99"].into_iter().enumerate() {
        let limit = ("limit", LIMIT_MS);
        let row = Row::smaller(
            &format!("{case}, above its fsync, {name}"),
            "ms",
            ms(above[place]),
            limit,
        );
        context.report.add(if has_bar && name == "p99" { row.must(1.0) } else { row });
        let plain = ("a plain fsync", ms(sync[place]));
        context.report.add(Row::smaller(&format!("{case}, {name}"), "ms", ms(whole[place]), plain));
    }
    Ok(())
}
