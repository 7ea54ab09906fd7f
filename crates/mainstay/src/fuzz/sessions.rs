//! Fuzz target for stored sessions and for snapshots of session state machines.

use crate::keyed;
use mainstay_engine::apply::sessions::bytes::StoredSession;
use mainstay_engine::apply::sessions::{response, slot};
use mainstay_engine::key::entry::EntryHeader;
use mainstay_model::Result;
use mainstay_state_machine::{
    Context, Outcome, SessionMachine, StateView, Table, UserStateMachine,
};

const PRELUDE_BYTES: usize = 16;

/// Decodes stored sessions, response slots and state machine snapshots, and checks that each survives a round
/// trip.
pub fn sessions(bytes: &[u8]) {
    stored(bytes);
    let mut mended = bytes.to_vec();
    mend(&mut mended);
    for bytes in [bytes, &mended] {
        let Ok(machine) = restored(bytes) else { continue };
        let mut written = Vec::new();
        let hash = machine.snapshot_to(&mut written).expect("what was read can be written").hash;
        let again = restored(&written).expect("what was written can be read");
        assert_eq!(again.hash(), hash, "equal states have equal hashes");
    }
}

fn restored(bytes: &[u8]) -> Result<SessionMachine<Sum>> {
    SessionMachine::restore(Sum, bytes)
}

/// Recomputes the checksum of the prelude and the checksums of the blocks.
fn mend(bytes: &mut [u8]) {
    if bytes.len() < PRELUDE_BYTES {
        return;
    }
    let crc = crc32c::crc32c(&bytes[..12]);
    bytes[12..PRELUDE_BYTES].copy_from_slice(&crc.to_le_bytes());
    keyed::mend_blocks(bytes, PRELUDE_BYTES);
}

fn stored(bytes: &[u8]) {
    if let Ok(standing) = StoredSession::decode(bytes) {
        let mut written = Vec::new();
        standing.encode(&mut written);
        assert_eq!(StoredSession::decode(&written), Ok(standing));
    }
    let _ = response::decode(bytes);
    let flags = 0;
    let counter = 1;
    let writes = 1;
    let expires = None;
    let head = EntryHeader { flags, revision: 1_000, stamp: 1_000, counter, writes, expires };
    let Ok((mark, responses)) = slot::split(&head, bytes) else { return };
    let mut written = Vec::new();
    if slot::encode(mark, responses.clone(), &mut written).is_ok() {
        assert_eq!(written, bytes, "numbers have one form");
        responses.flatten().for_each(|one| drop(response::decode(one.bytes)));
    }
}

/// A state machine that adds numbers.
struct Sum;

const SUMS: Table<u8, u64> = Table::new("sums");

impl UserStateMachine for Sum {
    const NAME: &'static str = "sum";
    const VERSION: u32 = 1;
    type Command = u64;
    type Response = u64;
    type Request = u64;

    fn apply(
        &self,
        state: &mut StateView<'_>,
        _: &Context<'_>,
        add: u64,
    ) -> Result<Outcome<u64, u64>> {
        let sum = SUMS.get(state, &0)?.unwrap_or(0).wrapping_add(add);
        SUMS.put(state, &0, &sum)?;
        Ok(Outcome::new(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_engine::apply::sessions::bytes::Profile;
    use mainstay_model::{Answer, Former, Name, Receipt, SessionRequest, smallvec};
    use mainstay_state_machine::Input;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn seeds() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/sessions")
    }

    fn seed(name: &str) -> Vec<u8> {
        fs::read(seeds().join(name)).unwrap()
    }

    /// Returns a machine with an open session that has responses and server messages, a closed session, and
    /// user state.
    fn machine() -> SessionMachine<Sum> {
        let name = |name| Name::new(name).unwrap();
        let mut machine = SessionMachine::new(Sum);
        machine.apply(1, &Input::open(name("gone"))).answer.unwrap();
        machine.apply(2, &Input::Close { session: name("gone") }).answer.unwrap();
        machine.apply(3, &Input::open(name("till-7"))).answer.unwrap();
        for number in 1..=3 {
            let request = SessionRequest::new(name("till-7"), number, 2.min(number));
            let add = SessionMachine::<Sum>::request(request, &number).unwrap();
            machine.apply(4, &add).answer.unwrap();
        }
        let send = SessionMachine::<Sum>::send(name("till-7"), &9).unwrap();
        machine.apply(5, &send).answer.unwrap();
        machine
    }

    fn all_of(machine: &SessionMachine<Sum>) -> Vec<u8> {
        let mut bytes = Vec::new();
        machine.snapshot_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn seeds_are_what_is_written_now() {
        assert_eq!(seed("machine"), all_of(&machine()));
        assert!(matches!(StoredSession::decode(&seed("live")), Ok(StoredSession::Live(_))));
        assert!(matches!(StoredSession::decode(&seed("gone")), Ok(StoredSession::Gone { .. })));
        let flags = 0;
        let counter = 1;
        let writes = 1;
        let expires = None;
        let head = EntryHeader { flags, revision: 9, stamp: 9, counter, writes, expires };
        assert_eq!(slot::split(&head, &seed("slot")).unwrap().1.count(), 2);
    }

    #[test]
    fn mended_snapshots_get_past_the_checksums() {
        let whole = seed("machine");
        let mut mended = whole.clone();
        mend(&mut mended);
        assert!(mended == whole, "what is whole stays as it is");
        // Changes the payload of a server message.
        let at = mended.iter().rposition(|byte| *byte == 9).unwrap();
        mended[at] = 8;
        assert!(restored(&mended).is_err());
        mend(&mut mended);
        assert_ne!(restored(&mended).unwrap().hash(), machine().hash());
    }

    proptest! {
        #[test]
        fn a_snapshot_with_another_byte_is_refused(at in any::<Index>(), byte in 1..=255_u8) {
            let mut bytes = seed("machine");
            *at.get_mut(&mut bytes) ^= byte;
            prop_assert!(restored(&bytes).is_err());
        }
    }

    /// Writes the seeds. Run with `--ignored` when their format changes.
    #[test]
    #[ignore = "writes into the repository"]
    fn write_seeds() {
        let write = |name: &str, bytes: &[u8]| fs::write(seeds().join(name), bytes).unwrap();
        fs::create_dir_all(seeds()).unwrap();
        write("machine", &all_of(&machine()));
        let capabilities = vec![("lang".to_owned(), "rust".to_owned())];
        let profile =
            Profile { opened: 1, epoch: 2, lease_ms: 9, capabilities, ..Profile::default() };
        let former = Former { next_request: 7, last_letter: 8 };
        for (name, standing) in [
            ("live", StoredSession::Live(profile)),
            ("gone", StoredSession::Gone { expired: true, former }),
        ] {
            let mut bytes = Vec::new();
            standing.encode(&mut bytes);
            write(name, &bytes);
        }
        let answers = smallvec![Answer::Counter(300)];
        let receipt = Receipt { revision: 1, stamp: 1, held: true, repeated: false, answers };
        let mut bytes = Vec::new();
        let mut out = Vec::new();
        response::encode(&Ok(receipt), &mut bytes).unwrap();
        let both = [(5, 9), (4, 7)].map(|(request_id, at)| {
            Ok(slot::Response { request_id, revision: at, stamp: at, bytes: &bytes })
        });
        slot::encode(4, both.into_iter(), &mut out).unwrap();
        write("slot", &out);
    }
}
