//! Memory use of sessions, as counted by the allocator, because the system's figure grows in pages of 2 MiB.

use mainstay::{CellCommand, Database, Name, Options, Result, SessionOptions, Transaction};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SESSIONS: usize = 1_000;
const RESPONSES: u64 = 10;
const LIMIT_BYTES: usize = 2 << 20;

/// Returns a request that writes nothing itself, so that only its response is stored.
fn request() -> Transaction {
    let name = Name::new("nothing").unwrap();
    Transaction::new().step(CellCommand::Delete { name, counter: None })
}

/// Returns the memory in use after a flush, so that it excludes the write buffer, where every transaction
/// leaves 160 bytes or more.
fn held(database: &Database) -> Result<usize> {
    database.trim()?;
    Ok(dhat::HeapStats::get().curr_bytes)
}

fn fill(database: &Database) -> Result<()> {
    for n in 0..SESSIONS {
        let session =
            database.sessions().open(SessionOptions::new().name(&format!("client-{n:04}")))?;
        for number in 1..=RESPONSES {
            session.execute(number, 1, request())?;
        }
    }
    Ok(())
}

#[test]
fn a_thousand_sessions_with_ten_small_responses_each_take_less_than_2_mib() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let directory = tempfile::tempdir().unwrap();
    let database = Options::new().open(directory.path().join("database")).unwrap();
    // Allocates everything that the first use creates: threads, buffers, tables.
    let first = database.sessions().open(SessionOptions::new()).unwrap();
    (1..=1_000).for_each(|number| drop(first.execute(number, number, request()).unwrap()));
    let before = held(&database).unwrap();
    fill(&database).unwrap();
    let grown = held(&database).unwrap() - before;
    println!("{SESSIONS} sessions with {RESPONSES} responses each: {} KiB", grown / 1024);
    assert_eq!(database.stats().sessions.kept, SESSIONS as u64 * RESPONSES + 1);
    assert!(grown <= LIMIT_BYTES, "{grown} bytes");
    let session = database.sessions().open(SessionOptions::new().name("client-0500")).unwrap();
    for number in 1..=RESPONSES {
        assert!(session.execute(number, 1, request()).unwrap().repeated);
    }
}
