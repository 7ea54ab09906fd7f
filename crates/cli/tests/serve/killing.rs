//! A server that is killed under load and restarted: retried requests are executed once.

use crate::process::Process;
use mainstay::{CellCommand, ErrorKind, Name, RequestId, Transaction, remote};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const WRITERS: u64 = 8;
const CYCLES: u64 = 3;
/// Number of writes answered before the server is killed.
const ENOUGH: u64 = 100;

/// The state of one writer.
#[derive(Default)]
struct Writer {
    id: u64,
    next: u64,
}

impl Writer {
    fn request(&self, number: u64) -> Transaction {
        let name = Name::new(&format!("count/{}", self.id)).unwrap();
        let id = RequestId::new(format!("{} {number}", self.id)).unwrap();
        Transaction::new().request(id).step(CellCommand::Incr { name, by: 1.into() })
    }

    /// Writes until the server is gone. The next run sends the failed request again.
    fn run(&mut self, address: &str, total: &AtomicU64) {
        let options = remote::Options::new(address).patience(Duration::from_millis(100));
        let Ok(db) = options.connect() else { return };
        loop {
            match db.execute(self.request(self.next)) {
                Ok(_) => self.next += 1,
                Err(error) => {
                    let kinds = [ErrorKind::Unavailable, ErrorKind::UnknownOutcome];
                    return assert!(kinds.contains(&error.kind()), "{error}");
                }
            }
            total.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn every_request_is_done_once() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let writers = (0..WRITERS).map(|id| Writer { id, next: 0 });
    let mut writers: Vec<Writer> = writers.collect();
    for _ in 0..CYCLES {
        let server = Process::serve(&data);
        let address = server.address.to_string();
        let total = AtomicU64::new(0);
        thread::scope(|scope| {
            for writer in &mut writers {
                let address = &address;
                let total = &total;
                scope.spawn(move || writer.run(address, total));
            }
            while total.load(Ordering::Relaxed) < ENOUGH {
                thread::yield_now();
            }
            server.kill();
        });
        assert!(!server.ended().success());
    }
    let server = Process::serve(&data);
    let db = remote::connect(&server.address.to_string()).unwrap();
    for writer in &writers {
        // The last request may or may not have been executed. After this retry it has been.
        db.execute(writer.request(writer.next)).unwrap();
        let count = db.cells().get(&format!("count/{}", writer.id)).unwrap();
        assert_eq!(count, Some((writer.next as i64 + 1).into()), "writer {}", writer.id);
    }
}
