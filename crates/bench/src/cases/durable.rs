//! Concurrent writes: set and cas at every durability level, as threads and as tickets.
//!
//! The peer is the bare log in the same form. A write cannot be faster than its append.

use super::load;
use super::writers::Ours;
use crate::context::{Context, Outcome};
use crate::forms::{Landing, threads, tickets};
use crate::harness::{Side, Slice, interleave};
use crate::peers::bare_log::{BareLog, PAYLOAD_BYTES, Seat};
use crate::peers::{fjall::Fjall, redb::Redb};
use crate::workload;
use mainstay::{Durability, Options};
use std::sync::Arc;
use std::time::Duration;

/// The written cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Sets random cells.
    Set,
    /// Swaps random cells, conditional on their counter.
    Cas,
    /// All writers set the same cell.
    Hot,
}

/// The way in which writes are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Threads,
    Tickets,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    operation: Operation,
    durability: Durability,
    form: Form,
    in_flight: usize,
}

impl Case {
    fn name(&self) -> String {
        let operation = match self.operation {
            Operation::Set => "set",
            Operation::Cas => "cas",
            Operation::Hot => "set of one hot cell",
        };
        let durability = match self.durability {
            Durability::Memory => "memory",
            Durability::Interval => "interval",
            Durability::Sync => "sync",
        };
        let form = match (self.form, self.in_flight) {
            (Form::Threads, 1) => "thread",
            (Form::Threads, _) => "threads",
            (Form::Tickets, 1) => "ticket",
            (Form::Tickets, _) => "tickets",
        };
        format!("{operation}, {durability}, {} {form}", self.in_flight)
    }

    /// The target for our rate divided by that of the first peer.
    fn must(&self) -> Option<f64> {
        if self.durability != Durability::Sync {
            return None;
        }
        match (self.operation, self.form, self.in_flight) {
            (Operation::Set | Operation::Hot, _, 64) => Some(0.8),
            (Operation::Set, Form::Threads, 1) => Some(0.8),
            (Operation::Cas, _, 64) => Some(0.6),
            _ => None,
        }
    }

    /// Number of submitters, and how many writes each has in flight.
    fn submitters(&self) -> (usize, usize) {
        let count = self.in_flight.min(2);
        (count, self.in_flight / count)
    }
}

fn cases(durability: Durability) -> Vec<Case> {
    let forms = [Form::Threads, Form::Tickets];
    let all = |operation, counts: &[usize]| -> Vec<Case> {
        let of = |form| counts.iter().map(move |&in_flight| (form, in_flight)).collect::<Vec<_>>();
        let pairs = forms.into_iter().flat_map(of);
        pairs.map(|(form, in_flight)| Case { operation, durability, form, in_flight }).collect()
    };
    let mut cases = all(Operation::Set, &[1, 2, 16, 64]);
    cases.extend(all(Operation::Cas, &[1, 2, 16, 64]));
    if durability == Durability::Sync {
        cases.extend(all(Operation::Hot, &[64]));
    }
    cases
}

/// Runs the matrix, with one database per durability level.
pub fn run(context: &mut Context) -> Outcome<()> {
    for durability in [Durability::Sync, Durability::Interval, Durability::Memory] {
        let wanted = cases(durability).into_iter().filter(|case| context.wants(&case.name()));
        let wanted: Vec<Case> = wanted.collect();
        if !wanted.is_empty() {
            run_durability(context, durability, &wanted)?;
        }
    }
    Ok(())
}

fn run_durability(context: &mut Context, durability: Durability, cases: &[Case]) -> Outcome<()> {
    let directory = context.directory("durable")?;
    let ours = Ours {
        database: Options::new().durability(durability).open(directory.path().join("ours"))?,
        names: workload::names(context.sized(100_000)),
        values: workload::values(),
    };
    load(&ours.database, ours.names.iter().cloned(), &ours.values)?;
    let log = BareLog::create(directory.path())?;
    for case in cases {
        run_case(context, case, &ours, &log)?;
    }
    Ok(())
}

fn run_case(context: &mut Context, case: &Case, ours: &Ours, log: &BareLog) -> Outcome<()> {
    let pace = match case.durability {
        Durability::Sync if case.must().is_some() => context.disk_bar(),
        Durability::Sync => context.shown(),
        _ => context.shown_unsynced(),
    };
    let mut sides = vec![Side::new("ours", our_side(ours, case)?)];
    match case.operation {
        Operation::Hot => {
            let spread = Case { operation: Operation::Set, ..*case };
            sides.push(Side::new("spread cells", our_side(ours, &spread)?));
        }
        _ => sides.push(Side::new(log_name(case.durability), log_side(log, case))),
    }
    let measured = interleave(&mut sides, pace)?;
    drop(sides);
    context.report.compare(&case.name(), &measured, case.must());
    other_stores(context, case, ours)
}

/// Compares with fjall and redb where their calls have the same meaning. This is a separate comparison,
/// because redb's many fsyncs would take time from the pair that has a target.
fn other_stores(context: &mut Context, case: &Case, ours: &Ours) -> Outcome<()> {
    let same = matches!(case.operation, Operation::Set)
        && (case.durability, case.form) == (Durability::Sync, Form::Threads);
    if !same || !matches!(case.in_flight, 1 | 64) {
        return Ok(());
    }
    let directory = context.directory("stores")?;
    let fjall = Fjall::open(&directory.path().join("fjall"), 32 << 20)?;
    let redb = Redb::create(directory.path(), 32 << 20)?;
    let set_fjall = ours.setters(case.in_flight, |name, value| fjall.set_durable(name, value));
    let set_redb = ours.setters(case.in_flight, |name, value| redb.set_durable(name, value));
    let mut sides = [
        Side::new("ours", our_side(ours, case)?),
        Side::new("fjall", in_threads(set_fjall)),
        Side::new("redb", in_threads(set_redb)),
    ];
    let measured = interleave(&mut sides, context.shown())?;
    drop(sides);
    context.report.compare(&case.name(), &measured, None);
    Ok(())
}

fn log_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "bare log",
        _ => "bare log, unsynced",
    }
}

type Run<'a> = Box<dyn FnMut(Duration) -> Outcome<Slice> + 'a>;

fn in_threads<'a, W: FnMut() -> Outcome<()> + Send + 'a>(mut workers: Vec<W>) -> Run<'a> {
    Box::new(move |slice| threads(&mut workers, 1, slice))
}

fn in_tickets<'a, S: FnMut(Landing) -> Outcome<()> + Send + 'a>(
    mut submitters: Vec<S>,
    depth: usize,
) -> Run<'a> {
    Box::new(move |slice| tickets(&mut submitters, depth, slice))
}

fn log_side<'a>(log: &'a BareLog, case: &Case) -> Run<'a> {
    let payload = [0x5a; PAYLOAD_BYTES];
    let synced = case.durability == Durability::Sync;
    let (count, depth) = case.submitters();
    match case.form {
        Form::Threads => in_threads((0..case.in_flight).map(|_| appender(log, synced)).collect()),
        Form::Tickets if synced => {
            let submit = move |landing: Landing| {
                log.append_with(&payload, move |result| landing.answer(result));
                Ok(())
            };
            in_tickets(vec![submit; count], depth)
        }
        Form::Tickets => {
            let submit = move |landing: Landing| {
                landing.answer(log.append_unsynced(&payload));
                Ok(())
            };
            in_tickets(vec![submit; count], depth)
        }
    }
}

fn appender(log: &BareLog, synced: bool) -> impl FnMut() -> Outcome<()> + Send + '_ {
    let payload = [0x5a; PAYLOAD_BYTES];
    let mut seat: Option<Arc<Seat>> = None;
    move || {
        if !synced {
            return Ok(log.append_unsynced(&payload)?);
        }
        // Every slice has new threads, so a seat of another thread is replaced.
        let seat = match &mut seat {
            Some(seat) if seat.is_mine() => seat,
            other => other.insert(Seat::new()),
        };
        Ok(log.append(seat, &payload)?)
    }
}

/// Our side of the case.
fn our_side<'a>(ours: &'a Ours, case: &Case) -> Outcome<Run<'a>> {
    let (count, depth) = case.submitters();
    Ok(match (case.form, case.operation) {
        (Form::Threads, Operation::Cas) => in_threads(ours.swappers(case.in_flight)?),
        (Form::Threads, Operation::Set) => in_threads(ours.cell_setters(case.in_flight)),
        (Form::Threads, Operation::Hot) => in_threads(ours.hot_setters(case.in_flight)),
        (Form::Tickets, Operation::Cas) => in_tickets(ours.swap_submitters(count)?, depth),
        (Form::Tickets, Operation::Set) => {
            in_tickets(ours.set_submitters(count, &ours.names), depth)
        }
        (Form::Tickets, Operation::Hot) => {
            in_tickets(ours.set_submitters(count, &ours.names[..1]), depth)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_stand_where_they_were_set() {
        let barred: Vec<String> = cases(Durability::Sync)
            .iter()
            .filter_map(|case| Some(format!("{} {}", case.name(), case.must()?)))
            .collect();
        let expected = [
            "set, sync, 1 thread 0.8",
            "set, sync, 64 threads 0.8",
            "set, sync, 64 tickets 0.8",
            "cas, sync, 64 threads 0.6",
            "cas, sync, 64 tickets 0.6",
            "set of one hot cell, sync, 64 threads 0.8",
            "set of one hot cell, sync, 64 tickets 0.8",
        ];
        assert_eq!(barred, expected);
        assert!(cases(Durability::Memory).iter().all(|case| case.must().is_none()));
        let pairs = cases(Durability::Memory).into_iter().map(|case| case.submitters());
        let in_flight: Vec<usize> = pairs.map(|(count, depth)| count * depth).take(4).collect();
        assert_eq!(in_flight, [1, 2, 16, 64]);
    }
}
