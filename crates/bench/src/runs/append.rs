//! Durable appends over all runs, compared with the two usual designs on PostgreSQL.

use super::events::{Notes, RUNS};
use super::ours;
use super::postgres::{Appending, Form, Postgres, Session};
use crate::context::{Context, Outcome, short_count};
use crate::harness::{Measured, Side, interleave};
use crate::report::Row;
use mainstay::{Database, Options};

/// Number of appends in flight.
pub const IN_FLIGHT: usize = 64;

/// One comparison.
struct Case {
    name: String,
    ours: for<'d> fn(&'d Database, &Notes, bool) -> Side<'d>,
    repeats: bool,
    /// The targets compared with the advisory lock and with the bigserial.
    must: [f64; 2],
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (more, repeats) in [("", false), (", 50 % duplicates", true)] {
        let name =
            |form| format!("append, sync, {IN_FLIGHT} {form}, {} runs{more}", short_count(RUNS));
        cases.push(Case { name: name("tickets"), ours: ours::tickets, repeats, must: [5.0, 2.0] });
        cases.push(Case { name: name("threads"), ours: ours::threads, repeats, must: [3.0, 2.0] });
    }
    cases
}

/// Returns whether any case is selected.
pub fn wanted(context: &Context) -> bool {
    cases().iter().any(|case| context.wants(&case.name))
}

/// Runs all cases.
pub fn run(context: &mut Context, postgres: Option<&Postgres>) -> Outcome<()> {
    for case in cases() {
        if context.wants(&case.name) {
            compare(context, &case, postgres)?;
        }
    }
    Ok(())
}

fn compare(context: &mut Context, case: &Case, postgres: Option<&Postgres>) -> Outcome<()> {
    let notes = Notes::new();
    let count = context.sized(100_000);
    let directory = context.directory("append")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    ours::fill(&database, notes.earlier(count))?;
    let mut sides = vec![(case.ours)(&database, &notes, case.repeats)];
    if let Some(postgres) = postgres {
        for form in Form::ALL {
            sides.push(theirs(postgres, form, &notes, count, case.repeats)?);
        }
    }
    let measured = interleave(&mut sides, context.process_bar())?;
    drop(sides);
    report(context, case, &measured);
    Ok(())
}

fn theirs(
    postgres: &Postgres,
    form: Form,
    notes: &Notes,
    count: usize,
    repeats: bool,
) -> Outcome<Side<'static>> {
    Session::open(postgres)?.fill(form, notes.earlier(count))?;
    let mut appending = Appending::connect(postgres, form, IN_FLIGHT, notes, repeats)?;
    let name = format!("{}, {}, {IN_FLIGHT} connections", postgres.name, form.name());
    Ok(Side::new(name, move |slice| appending.run(slice)))
}

fn report(context: &mut Context, case: &Case, measured: &[Measured]) {
    let [ours, peers @ ..] = measured else { return };
    for (peer, must) in peers.iter().zip(case.must) {
        if let Some(row) = Row::rates(&case.name, ours, peer, Some(must)) {
            context.report.add(row);
        }
    }
    if peers.is_empty() {
        context.report.add(Row::alone(&case.name, ours));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_stand_where_they_were_set() {
        let bars: Vec<_> = cases().into_iter().map(|case| (case.name, case.must)).collect();
        let expected = [
            ("append, sync, 64 tickets, 1k runs", [5.0, 2.0]),
            ("append, sync, 64 threads, 1k runs", [3.0, 2.0]),
            ("append, sync, 64 tickets, 1k runs, 50 % duplicates", [5.0, 2.0]),
            ("append, sync, 64 threads, 1k runs, 50 % duplicates", [3.0, 2.0]),
        ];
        assert_eq!(bars, expected.map(|(name, must)| (name.to_owned(), must)));
    }
}
