//! Runs, compared with an events table in PostgreSQL: appends, pages, tails, projections, snapshots, a long
//! run, sizes.
//!
//! ```text
//!   events                                       the benchmark events, the same for every side
//!   ours   postgres/                             our calls; a PostgreSQL of this run, and its clients' calls
//!   append   fetch   tail   project   long   size      one case each
//! ```

mod append;
mod events;
mod fetch;
mod long;
mod ours;
mod postgres;
mod project;
mod size;
mod tail;

use crate::context::{Context, Outcome};
use postgres::Postgres;

/// Runs all selected cases.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build, whose figures mean nothing: use --release");
    }
    beside_postgres(context)?;
    tail::run(context)?;
    project::run(context)?;
    long::run(context)
}

/// The cases compared with PostgreSQL. It is stopped before the other cases run.
fn beside_postgres(context: &mut Context) -> Outcome<()> {
    if !append::wanted(context) && !fetch::wanted(context) && !size::wanted(context) {
        return Ok(());
    }
    let postgres = Postgres::start(context)?;
    append::run(context, postgres.as_ref())?;
    fetch::run(context, postgres.as_ref())?;
    size::run(context, postgres.as_ref())?;
    postgres.map_or(Ok(()), Postgres::stop)
}
