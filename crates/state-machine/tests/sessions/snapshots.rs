//! Snapshots restore exactly the same state, or fail.

use crate::sample::*;
use mainstay_model::{Code, KeptLimits, Result, SessionRequest};
use mainstay_state_machine::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::{self, Read, Write};

/// A snapshot of format 1, written by the program of that time. It must never change.
const FIRST: &[u8] = include_bytes!("../fixtures/sessions/snapshot-1");

/// A machine with some of every kind of state. Error messages are in its snapshot too, because a different
/// message would make replicas of two versions differ.
fn full() -> Machine {
    let kept = KeptLimits { bytes: 10_000, ..KeptLimits::default() };
    let mut machine = machine(Limits { kept, mailbox: 4, ..Limits::default() });
    let about =
        vec![("begin".to_owned(), "greet".to_owned()), ("tongue".to_owned(), "é".to_owned())];
    machine
        .apply(1_000, &Input::Open { session: name("a"), lease_ms: Some(50), capabilities: about });
    machine.apply(1_001, &open("abc", 1));
    machine.apply(1_002, &open("ab", 1));
    let whats = [
        What::Add { key: 1, n: 300 },
        What::Refuse { key: 2, n: -1 },
        What::Fail { key: 1, n: 1 },
        What::Panic { key: 1, n: 1 },
        What::Tell { to: 1, times: 2 },
        What::Tell { to: 1, times: 3 },
        What::Big { key: 1, bytes: 20_000 },
        What::Who,
    ];
    for (id, what) in (1..).zip(whats) {
        machine.apply(1_010 + id, &request("a", id, 2, what));
    }
    let garbage = SessionRequest::new(name("a"), 9, 2);
    machine.apply(1_019, &Input::Request { request: garbage, command: vec![0xff] });
    machine.apply(1_020, &request("abc", 9, 9, What::Who));
    machine.apply(1_021, &Input::Close { session: name("abc") });
    machine.apply(1_022, &Input::Acknowledge { session: name("ab"), upto: 1 });
    machine.apply(1_023, &request("ab", 1, 2, What::Who));
    machine
}

fn bytes(machine: &Machine) -> Vec<u8> {
    let mut bytes = Vec::new();
    machine.snapshot_to(&mut bytes).unwrap();
    bytes
}

fn restore(bytes: &[u8]) -> Result<Machine> {
    Machine::restore(Sample::default(), bytes)
}

#[test]
fn what_was_written_comes_back_and_goes_on_alike() {
    let mut machine = full();
    let mut restored = restore(&bytes(&machine)).unwrap();
    assert_eq!(restored.hash(), machine.hash());
    assert_eq!(restored.usage(), machine.usage());
    for input in [
        request("a", 2, 1, What::Who),
        request("a", 10, 10, What::Tell { to: 0, times: 2 }),
        Input::Retry { sent_before: 2_000, limit: 9 },
        Input::ExpireDue { limit: 9 },
        open("abc", 5),
        request("abc", 9, 9, What::Who),
    ] {
        assert_eq!(restored.apply(2_500, &input), machine.apply(2_500, &input), "{input:?}");
        assert_eq!(restored.hash(), machine.hash(), "{input:?}");
    }
}

#[test]
fn a_machine_in_which_nothing_happened_has_a_snapshot_too() {
    let empty = machine(Limits::default());
    assert_eq!(restore(&bytes(&empty)).unwrap().hash(), empty.hash());
    assert_ne!(empty.hash(), full().hash());
}

#[test]
fn every_flipped_bit_every_cut_and_everything_behind_the_end_is_refused() {
    let bytes = bytes(&full());
    let mut kept = full();
    let before = kept.hash();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        for bit in 0..8 {
            flipped[at] ^= 1 << bit;
            let error = kept.restore_from(&flipped[..]).unwrap_err();
            assert_eq!(error.code(), Code::CorruptData, "bit {bit} of byte {at}: {error}");
            flipped[at] ^= 1 << bit;
        }
        let error = kept.restore_from(&bytes[..at]).unwrap_err();
        assert_eq!(error.code(), Code::CorruptData, "cut at {at}");
    }
    for more in [&[0][..], &bytes] {
        let error = kept.restore_from(&[&bytes[..], more].concat()[..]).unwrap_err();
        assert_eq!(error.code(), Code::CorruptData);
    }
    assert_eq!(kept.hash(), before, "nothing is half restored");
}

#[test]
fn blocks_that_are_left_out_doubled_or_swapped_are_refused() {
    let mut machine = full();
    machine.apply(1_100, &Input::SetLimits(Limits::default()));
    for id in 10..200 {
        machine.apply(1_100, &request("a", id, 1, What::Big { key: 3, bytes: 2_000 }));
    }
    let bytes = bytes(&machine);
    let ends = block_ends(&bytes);
    assert!(ends.len() > 5, "there are several blocks: {ends:?}");
    restore(&bytes).unwrap();
    let first = ends[1];
    let second = ends[2];
    let third = ends[3];
    let without = [&bytes[..first], &bytes[second..]].concat();
    let doubled = [&bytes[..second], &bytes[first..]].concat();
    let swapped =
        [&bytes[..first], &bytes[second..third], &bytes[first..second], &bytes[third..]].concat();
    for (what, damaged) in [("without", without), ("doubled", doubled), ("swapped", swapped)] {
        assert_eq!(restore(&damaged).unwrap_err().code(), Code::CorruptData, "{what}");
    }
}

/// The ends of the prelude and of each block.
fn block_ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![16];
    while let Some(length) = bytes.get(ends[ends.len() - 1] + 1..).and_then(<[u8]>::first_chunk) {
        ends.push(ends[ends.len() - 1] + 9 + u32::from_le_bytes(*length) as usize);
    }
    ends
}

/// Recomputes all checksums and the final hash, as a deliberate forger would.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let ends = block_ends(&bytes);
    let last = ends[ends.len() - 2];
    let end = ends[ends.len() - 1];
    let mut seal = |from: usize, to: usize| {
        let head = crc32c::crc32c(&bytes[from..from + 5]);
        let checksum = crc32c::crc32c_append(head, &bytes[from + 9..to]);
        bytes[from + 5..from + 9].copy_from_slice(&checksum.to_le_bytes());
    };
    ends.windows(2).for_each(|block| seal(block[0], block[1]));
    let hash = *blake3::hash(&bytes[..last]).as_bytes();
    bytes[end - 32..].copy_from_slice(&hash);
    let checksum = crc32c::crc32c(&[&bytes[last..last + 5], &bytes[last + 9..]].concat());
    bytes[last + 5..last + 9].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A wrong snapshot with valid checksums is refused, or restores a valid state that encodes to the same
    /// bytes.
    #[test]
    fn forged_snapshots_are_refused_or_mean_what_they_say(
        changes in vec((0..10_000_usize, any::<u8>()), 1..4),
    ) {
        let mut forged = bytes(&full());
        let ends = block_ends(&forged);
        prop_assert_eq!(ends.len(), 4, "a head, entries, an end");
        for (at, byte) in changes {
            let bodies: Vec<usize> = (ends[0] + 9..ends[1]).chain(ends[1] + 9..ends[2]).collect();
            forged[bodies[at % bodies.len()]] = byte;
        }
        let forged = sealed(forged);
        match restore(&forged) {
            Ok(restored) => prop_assert_eq!(bytes(&restored), forged),
            Err(error) => {
                prop_assert!([Code::CorruptData, Code::ForeignSnapshot].contains(&error.code()));
            }
        }
    }
}

/// A forged snapshot that restores a valid state must not break later operations.
#[test]
fn no_forged_byte_makes_a_machine_that_breaks() {
    let whole = bytes(&full());
    let ends = block_ends(&whole);
    for at in (ends[0] + 9..ends[1]).chain(ends[1] + 9..ends[2]) {
        for byte in [0, 1, 2, 0x7f, 0x80, 0xff] {
            let mut forged = whole.clone();
            forged[at] = byte;
            let forged = sealed(forged);
            if let Ok(mut restored) = restore(&forged) {
                assert_eq!(bytes(&restored), forged, "byte {at} is {byte}");
                go_on(&mut restored);
            }
        }
    }
}

fn go_on(machine: &mut Machine) {
    for who in NAMES {
        machine.apply(3_000, &Input::open(name(who)));
        machine.apply(3_000, &Machine::send(name(who), &1).unwrap());
        machine.apply(3_000, &request(who, 50, 1, What::Tell { to: 1, times: 1 }));
        machine.apply(3_000, &Input::Acknowledge { session: name(who), upto: 3 });
    }
    machine.apply(3_001, &Input::Retry { sent_before: 3_001, limit: 99 });
    for who in NAMES {
        machine.apply(3_002, &Input::Expire { session: name(who) });
        machine.apply(3_002, &Input::open(name(who)));
    }
    machine.usage();
}

#[test]
fn a_snapshot_that_is_sealed_anew_is_the_same() {
    assert_eq!(sealed(bytes(&full())), bytes(&full()));
}

#[test]
fn another_machine_another_version_and_a_newer_format_are_named() {
    struct Other<const VERSION: u32>;
    impl<const VERSION: u32> UserStateMachine for Other<VERSION> {
        const NAME: &'static str = if VERSION == 0 { "other" } else { "sample" };
        const VERSION: u32 = VERSION;
        type Command = Command;
        type Response = Said;
        type Request = i64;

        fn apply(
            &self,
            _: &mut StateView<'_>,
            _: &Context<'_>,
            _: Command,
        ) -> Result<Outcome<Said, i64>> {
            Ok(Outcome::new(Said::Number(0)))
        }
    }
    let bytes = bytes(&full());
    let error = SessionMachine::<Other<0>>::restore(Other, &bytes[..]).unwrap_err();
    assert_eq!(error.code(), Code::ForeignSnapshot);
    assert_eq!(
        error.message(),
        "the snapshot is of machine `sample`, version 3, and this is `other`, version 0"
    );
    let error = SessionMachine::<Other<4>>::restore(Other, &bytes[..]).unwrap_err();
    assert_eq!(error.code(), Code::ForeignSnapshot);
    assert!(SessionMachine::<Other<3>>::restore(Other, &bytes[..]).is_ok());

    let mut newer = bytes.clone();
    newer[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let checksum = crc32c::crc32c(&newer[..12]);
    newer[12..16].copy_from_slice(&checksum.to_le_bytes());
    let error = restore(&newer).unwrap_err();
    assert_eq!(error.code(), Code::NewerFormat);
    assert_eq!(error.message(), "the snapshot has format 2, this program reads 1");
    assert_eq!(restore(b"what is this?").unwrap_err().code(), Code::CorruptData);
}

#[test]
fn equal_states_have_equal_bytes_whatever_way_they_came() {
    let mut one = machine(Limits::default());
    let mut other = machine(Limits::default());
    for who in ["a", "b"] {
        one.apply(5, &open(who, 50));
    }
    for who in ["b", "a"] {
        other.apply(5, &open(who, 50));
    }
    assert_eq!(bytes(&one), bytes(&other));
}

/// Records the size of the largest single write.
struct Pieces(usize);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns one byte at a time, with interruptions in between.
struct Slow<'b>(&'b [u8], bool);

impl Read for Slow<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = room.len().min(1);
        self.0.read(&mut room[..length])
    }
}

#[test]
fn it_is_written_and_read_in_pieces() {
    let mut machine = full();
    machine.apply(1_100, &Input::SetLimits(Limits::default()));
    for id in 10..1_000 {
        machine.apply(1_100, &request("a", id, 1, What::Big { key: 3, bytes: 1_000 }));
    }
    let mut pieces = Pieces(0);
    let written = machine.snapshot_to(&mut pieces).unwrap();
    assert!(written.bytes > 900_000 && pieces.0 < 70_000, "{written:?} in pieces of {}", pieces.0);
    let bytes = bytes(&machine);
    assert_eq!(
        Machine::restore(Sample::default(), Slow(&bytes, false)).unwrap().hash(),
        written.hash
    );
}

/// Fails after this many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_is_full_is_named() {
    for room in [0, 20, 200] {
        assert_eq!(full().snapshot_to(Full(room)).unwrap_err().code(), Code::DiskFull);
    }
}

#[test]
fn the_first_format_is_read_and_written_as_it_was() {
    let machine = restore(FIRST).unwrap();
    assert_eq!(bytes(&machine), FIRST);
    assert_eq!(bytes(&full()), FIRST, "what is written today");
}

/// Writes the fixture: once for each format, and never again.
#[test]
#[ignore = "writes into the repository"]
fn write_the_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sessions/snapshot-1");
    std::fs::write(path, bytes(&full())).unwrap();
}
