//! What fuzzers feed: any bytes to the readers of what clients send. None may panic, and how bytes
//! arrive makes no difference.

use crate::http;
use crate::outbox;
use crate::resp::request::{Limits, Parsed, Parser};
use crate::resp::table::{self, Run};

/// More is not fed byte by byte.
const PIECES_LIMIT_BYTES: usize = 2048;
const LIMITS: Limits = Limits { words: 64, word_bytes: 512, request_bytes: 1024, line_bytes: 512 };

/// Requests of RESP: as one piece and byte by byte they are the same, and those of commands on data become
/// plans or are refused.
pub fn requests(bytes: &[u8]) {
    let whole = read(bytes, bytes.len());
    if bytes.len() <= PIECES_LIMIT_BYTES {
        assert_eq!(read(bytes, 0), whole, "byte by byte");
    }
    for words in whole.iter().flatten() {
        plan(words);
    }
}

/// Words as a command, if they are one that has a plan.
fn plan(words: &[Vec<u8>]) -> bool {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match table::find(&words) {
        Ok((_, spec)) => {
            matches!(spec.run, Run::Data(read) | Run::Alone(read) if read(&words).is_ok())
        }
        Err(_) => false,
    }
}

/// All requests, when so many bytes are there at first and one more comes each time.
fn read(bytes: &[u8], mut there: usize) -> Vec<Result<Vec<Vec<u8>>, String>> {
    let (mut parser, mut start, mut found) = (Parser::default(), 0, Vec::new());
    loop {
        let taken = match parser.next(&bytes[start..there], &LIMITS) {
            Ok(Parsed::Request(words, taken)) => {
                found.push(Ok(words.into_iter().map(<[u8]>::to_vec).collect()));
                taken
            }
            Ok(Parsed::Line(words, taken)) => {
                found.push(Ok(words));
                taken
            }
            Ok(Parsed::Incomplete) if there == bytes.len() => return found,
            Ok(Parsed::Incomplete) => {
                there += 1;
                continue;
            }
            Err(error) => {
                found.push(Err(error.to_string()));
                return found;
            }
        };
        assert!(taken > 0 && start + taken <= there, "no more than there was");
        start += taken;
    }
}

/// Transactions as JSON.
pub fn transaction(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let sent = outbox::Settings::default();
    let Ok(transaction) = http::read_transaction(text, &sent) else { return };
    let again = http::read_transaction(text, &sent).expect("what was read is read again");
    assert_eq!(format!("{transaction:?}"), format!("{again:?}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::fs;
    use std::path::Path;

    fn feed(target: &str, mut body: impl FnMut(&[u8])) -> usize {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
        let files = fs::read_dir(seeds).unwrap().map(|file| file.unwrap().path());
        files.map(|file| body(&fs::read(file).unwrap())).count()
    }

    #[test]
    fn all_seeds_are_taken_without_a_panic() {
        assert!(feed("requests", requests) > 2);
        assert!(feed("transaction", transaction) > 2);
    }

    proptest! {
        /// What a fuzzer does, a little of it with every run of the tests.
        #[test]
        fn changed_seeds_are_taken_without_a_panic(
            changes in vec((any::<Index>(), any::<u8>()), 1..6),
        ) {
            let changed = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                changes.iter().for_each(|(at, byte)| *at.get_mut(&mut bytes) = *byte);
                bytes
            };
            feed("requests", |bytes| requests(&changed(bytes)));
            feed("transaction", |bytes| transaction(&changed(bytes)));
        }
    }

    /// Every command on records, hashes, runs, the outbox and sessions that has a plan is among the seeds, as one that is taken.
    #[test]
    fn the_seeds_of_requests_have_all_commands_on_records_runs_and_sessions() {
        let mut taken = std::collections::BTreeSet::new();
        feed("requests", |bytes| {
            let requests = read(bytes, bytes.len()).into_iter().flatten();
            let plans = requests.filter(|words| plan(words));
            taken.extend(plans.map(|words| String::from_utf8_lossy(&words[0]).to_lowercase()));
        });
        use table::Group::{Hashes, Outbox, Records, Runs, Sessions};
        let kinds = [Records, Hashes, Runs, Outbox, Sessions];
        let on_records = table::all().filter(|spec| kinds.contains(&spec.group));
        for spec in on_records.filter(|spec| matches!(spec.run, Run::Data(_) | Run::Alone(_))) {
            assert!(taken.contains(spec.name), "{} of {taken:?}", spec.name);
        }
    }

    /// The seeds are what the readers take, not what they refuse at once.
    #[test]
    fn the_seeds_of_transactions_are_transactions() {
        feed("transaction", |bytes| {
            let text = std::str::from_utf8(bytes).unwrap();
            let sent = outbox::Settings::default();
            assert!(http::read_transaction(text, &sent).is_ok(), "{text}");
        });
    }
}
