//! Damaged files are refused.

use crate::world::World;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use mainstay::ErrorKind;
use mainstay_runs::archive::ArchivedRun;
use std::io::{Read, Write};

fn archived() -> (World, ArchivedRun, Vec<u8>) {
    let world = World::new();
    world.ended("r");
    world.archive.archive("r").unwrap();
    let run = world.archive.find("r").unwrap().unwrap();
    let bytes = world.store.bytes(&run);
    (world, run, bytes)
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

fn refused(world: &World, run: &ArchivedRun, bytes: Vec<u8>, what: &str) {
    world.store.replace(run, bytes);
    assert!(world.archive.verify(run).is_err(), "{what}");
    assert!(world.archive.import(run).is_err(), "{what}");
    assert_eq!(world.runs().get("r").unwrap(), None, "nothing of it is brought back: {what}");
}

#[test]
fn no_byte_can_change_or_be_missing() {
    let (world, run, bytes) = archived();
    let whole = world.archive.verify(&run).unwrap();
    let mut harmless = Vec::new();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        world.store.replace(&run, damaged.clone());
        match world.archive.verify(&run) {
            Err(_) => refused(&world, &run, damaged, &format!("byte {at}")),
            // The gzip header's maker fields and the padding bits of the last byte have no meaning.
            Ok(contents) => harmless.push((at, contents == whole)),
        }
    }
    assert!(harmless.len() <= 7 && harmless.iter().all(|(_, is_same)| *is_same), "{harmless:?}");
    for length in (0..bytes.len()).step_by(7) {
        refused(&world, &run, bytes[..length].to_vec(), &format!("{length} bytes"));
    }
    refused(&world, &run, [&bytes[..], b"more"].concat(), "more behind it");
    world.store.replace(&run, bytes);
    assert_eq!(world.archive.import(&run).unwrap().written, 2);
}

#[test]
fn lines_that_were_edited_are_refused() {
    let (world, run, bytes) = archived();
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let join = |lines: &[&str]| lines.join("\n") + "\n";
    let edited = [
        (join(&[lines[0], lines[1], lines[3]]), "an event less"),
        (join(&[lines[0], lines[2], lines[1], lines[3]]), "another order"),
        (join(&lines[..3]), "no last line"),
        (join(&lines[..1]), "the first line alone"),
        (text.replace("RunStarted", "RunApproved"), "another event"),
        (text.replace("\"branch\":\"main\"", "\"branch\":\"other\""), "another head"),
        (text.trim_end().to_owned(), "a line without an end"),
        (String::new(), "nothing"),
    ];
    for (text, what) in edited {
        refused(&world, &run, packed(&text), what);
    }
    let newer = text.replace("\"archiveVersion\":1", "\"archiveVersion\":2");
    world.store.replace(&run, packed(&newer));
    assert_eq!(world.archive.verify(&run).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_damaged_file_in_the_way_is_written_anew() {
    let (world, run, bytes) = archived();
    world.import("r").unwrap();
    let before = world.whole("r");
    world.store.replace(&run, bytes[..bytes.len() / 2].to_vec());
    world.archive.archive("r").unwrap();
    assert_eq!(world.archive.verify(&run).unwrap().count, 2);
    world.import("r").unwrap();
    assert_eq!(world.whole("r"), before);
}
