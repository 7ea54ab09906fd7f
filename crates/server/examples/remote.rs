//! The same function on a database in this process and on one that is served.
//!
//! ```text
//! cargo run -p mainstay-server --example remote                     starts a server for itself
//! cargo run -p mainstay-server --example remote 127.0.0.1:7379      uses that one
//! ```

use mainstay::{At, Database, Filter, MergeStrategy, Result, remote};
use mainstay_server::resp::{self, Settings, Shared};
use std::net::TcpListener;
use std::time::Duration;

/// Knows nothing of where the database is.
fn visit(db: &Database) -> Result<()> {
    let cells = db.cells();
    let mut feed = db.watch(Filter::default(), db.revision())?;
    db.transaction(|t| {
        t.incr("visits", 1)?;
        t.set("last", "now")?;
        Ok(())
    })?;
    let before = db.revision();
    cells.set("last", "later")?;
    let then = cells.at(At::Revision(before))?;
    println!("visits {:?}, last {:?}", cells.get("visits")?, cells.get("last")?);
    println!("at revision {before} last was {:?}", then.get("last")?);

    db.fork("trial", "main", At::Latest)?;
    db.branch("trial")?.cells().set("last", "in a trial")?;
    db.merge("trial", "main", MergeStrategy::Strict)?;
    db.delete_branch("trial")?;
    while let Some(event) = feed.next(Duration::ZERO)? {
        println!("  {} {:?} {}", event.revision, event.kind, event.key);
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    println!("in this process");
    visit(&Database::memory()?)?;

    if let Some(address) = std::env::args().nth(1) {
        println!("at {address}");
        return Ok(visit(&remote::connect(&address)?)?);
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let server = resp::serve(listener, &Shared::new(Database::memory()?, Settings::default()))?;
    println!("at {address}");
    visit(&remote::connect(&address)?)?;
    server.stop();
    Ok(())
}
