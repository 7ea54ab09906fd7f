//! Fuzz targets: arbitrary bytes for the readers of archive files and file names. No input may panic, and
//! decoded content must round-trip.

#[cfg(test)]
#[path = "../../../../fuzz/feeding.rs"]
mod feeding;

use super::line::{self, Head};
use super::name;
use super::read::{read_lines, read_packed};
use flate2::Compression;
use flate2::write::GzEncoder;
use object_store::ObjectMeta;
use object_store::path::Path;
use std::io::Write;

/// Longer texts cannot be file names.
const NAME_LIMIT_BYTES: usize = 1024;

/// Fuzzes a compressed archive file, its lines with a matching last line, and a file name.
pub fn archive(bytes: &[u8]) {
    if let Ok(contents) = read_packed(bytes) {
        assert_eq!(read_packed(bytes), Ok(contents), "what was read is read again");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    text.split_inclusive('\n').for_each(lines);
    whole(text);
    if text.len() <= NAME_LIMIT_BYTES
        && let Ok(path) = Path::parse(text)
    {
        named(path);
    }
}

fn lines(text: &str) {
    if let Ok(head) = line::read::<Head>(text) {
        let written = line::plain(&head).expect("what was read can be written");
        let again: Head = line::read(&written).expect("what was written can be read");
        assert_eq!(line::plain(&again).as_ref(), Ok(&written));
        let _ = (head.check(), head.metadata());
    }
    if let Ok(event) = line::read_event(text) {
        let written = line::event(event.clone()).expect("what was read can be written");
        let again = line::read_event(&written).expect("what was written can be read");
        // NaN differs from itself, so compare the debug text.
        assert_eq!(format!("{again:?}"), format!("{event:?}"));
    }
}

/// Adds the matching last line to a run's lines. The compressed file must have the same content.
fn whole(text: &str) {
    let Ok((foot, contents)) = read_lines(text) else { return };
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = packer.write_all(text.as_bytes()).and_then(|()| packer.write_all(foot.as_bytes()));
    let packed = packed.and_then(|()| packer.finish()).expect("memory takes all");
    assert_eq!(read_packed(&packed), Ok(contents));
}

fn named(location: Path) {
    let last_modified = Default::default();
    let e_tag = None;
    let version = None;
    let meta = ObjectMeta { location, last_modified, size: 3, e_tag, version };
    let Some((run, is_known)) = name::read(&meta) else { return };
    if is_known {
        let folder = Path::from_iter(["archive", "main", "2026", "11", "15"]);
        let location = name::file(&folder, &run.run_id, run.last_event_seq, "0123");
        let (again, is_known) = name::read(&ObjectMeta { location, ..meta }).expect("a name");
        assert!(!is_known || again.run_id == run.run_id, "a name is read as it was written");
        assert_eq!(again.last_event_seq, run.last_event_seq);
    }
}

#[cfg(test)]
mod tests {
    use super::feeding::{changes, check_targets, feed, seeds};
    use super::*;
    use crate::archive::{Archive, ArchiveSettings, StoreSettings};
    use flate2::read::GzDecoder;
    use mainstay::{Database, NewEvent, Value};
    use proptest::prelude::*;
    use std::fs;
    use std::io::Read;

    #[test]
    fn all_seeds_are_taken_without_a_panic() {
        check_targets("mainstay_runs::fuzz", &["archive"]);
        feed("archive", archive);
    }

    proptest! {
        /// A short run of the fuzzer with every test run.
        #[test]
        fn changed_seeds_are_taken_without_a_panic(change in changes()) {
            feed("archive", |bytes| archive(&change.of(bytes)));
        }
    }

    /// Writes the seeds. Run it with `--ignored` after a format change.
    #[test]
    #[ignore = "writes into the repository"]
    fn write_seeds() {
        fs::create_dir_all(seeds("archive")).unwrap();
        let write =
            |name: &str, bytes: &[u8]| fs::write(seeds("archive").join(name), bytes).unwrap();
        let db = Database::memory().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let metadata = Value::from_json(r#"{"n":1,"b":{"$bytes":"/w=="}}"#).unwrap();
        db.runs().bootstrap("order-7", metadata.clone(), vec![]).unwrap();
        db.runs().append(NewEvent::new("order-7", "RunStarted").plan("1").value(metadata)).unwrap();
        db.runs().append(NewEvent::new("order-7", "RunCompleted").plan("1")).unwrap();
        let store = StoreSettings::Directory { path: directory.path().to_owned() };
        let settings = ArchiveSettings { older_than_ms: 0, ..ArchiveSettings::default() };
        let archive = Archive::open(&db, &store, settings).unwrap();
        archive.round().unwrap();
        let found = archive.find("order-7").unwrap().unwrap();
        let packed = fs::read(directory.path().join(&found.path)).unwrap();
        let mut text = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        write("packed", &packed);
        let end = text.trim_end().rfind('\n').unwrap() + 1;
        write("lines", &text.as_bytes()[..end]);
        write("foot", &text.as_bytes()[end..]);
        write("name", found.path.as_bytes());
        write("name-escaped", b"archive/a=2Fb/2026/11/15/tenant=2F7=20.7.0000.jsonl.gz");
    }
}
