//! What fuzzers feed: any bytes to the readers of what clients send. None may panic, and how bytes
//! arrive makes no difference.

use crate::http;
use crate::resp::request::{Limits, Parsed, Parser};

/// More is not fed byte by byte.
const PIECES_LIMIT_BYTES: usize = 2048;
const LIMITS: Limits = Limits { words: 64, word_bytes: 512, request_bytes: 1024, line_bytes: 512 };

/// Requests of RESP: as one piece and byte by byte they are the same.
pub fn requests(bytes: &[u8]) {
    let whole = read(bytes, bytes.len());
    if bytes.len() <= PIECES_LIMIT_BYTES {
        assert_eq!(read(bytes, 0), whole, "byte by byte");
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
    let Ok(transaction) = http::read_transaction(text) else { return };
    let again = http::read_transaction(text).expect("what was read is read again");
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

    /// The seeds are what the readers take, not what they refuse at once.
    #[test]
    fn the_seeds_of_transactions_are_transactions() {
        feed("transaction", |bytes| {
            let text = std::str::from_utf8(bytes).unwrap();
            assert!(http::read_transaction(text).is_ok(), "{text}");
        });
    }
}
