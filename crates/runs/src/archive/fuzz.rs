//! Fuzz targets: arbitrary bytes for the readers of archive files and file names. No input may panic, and
//! decoded content must round-trip.

#[cfg(test)]
#[path = "../../../../fuzz/feeding.rs"]
mod feeding;

use super::line::{self, Header};
use super::name;
use super::read::{read_compressed, read_lines};
use flate2::Compression;
use flate2::write::GzEncoder;
use object_store::ObjectMeta;
use object_store::path::Path;
use std::io::Write;

/// Longer texts cannot be file names.
const NAME_LIMIT_BYTES: usize = 1024;

/// Fuzzes a compressed archive file, its lines with a matching last line, and a file name.
pub fn archive(bytes: &[u8]) {
    if let Ok(contents) = read_compressed(bytes) {
        assert_eq!(read_compressed(bytes), Ok(contents), "what was read is read again");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    text.split_inclusive('\n').for_each(lines);
    with_footer(text);
    if text.len() <= NAME_LIMIT_BYTES
        && let Ok(path) = Path::parse(text)
    {
        path_name(path);
    }
}

fn lines(text: &str) {
    if let Ok(header) = line::decode::<Header>(text) {
        let encoded = line::encode_line(&header).expect("what was read can be written");
        let reread: Header = line::decode(&encoded).expect("what was written can be read");
        assert_eq!(line::encode_line(&reread).as_ref(), Ok(&encoded));
        let _ = (header.check(), header.metadata());
    }
    if let Ok(event) = line::decode_event(text) {
        let encoded = line::encode_event(event.clone()).expect("what was read can be written");
        let reread = line::decode_event(&encoded).expect("what was written can be read");
        // NaN differs from itself, so compare the debug text.
        assert_eq!(format!("{reread:?}"), format!("{event:?}"));
    }
}

/// Adds the matching last line to a run's lines. The compressed file must have the same content.
fn with_footer(text: &str) {
    let Ok((footer, contents)) = read_lines(text) else { return };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let compressed =
        encoder.write_all(text.as_bytes()).and_then(|()| encoder.write_all(footer.as_bytes()));
    let compressed = compressed.and_then(|()| encoder.finish()).expect("memory takes all");
    assert_eq!(read_compressed(&compressed), Ok(contents));
}

fn path_name(location: Path) {
    let last_modified = Default::default();
    let e_tag = None;
    let version = None;
    let meta = ObjectMeta { location, last_modified, size: 3, e_tag, version };
    let Some((run, is_known)) = name::parse(&meta) else { return };
    if is_known {
        let folder = Path::from_iter(["archive", "main", "2026", "11", "15"]);
        let location = name::file_path(&folder, &run.run_id, run.last_event_seq, "0123");
        let (reread, is_known) = name::parse(&ObjectMeta { location, ..meta }).expect("a name");
        assert!(!is_known || reread.run_id == run.run_id, "a name is read as it was written");
        assert_eq!(reread.last_event_seq, run.last_event_seq);
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
        let archived = archive.find("order-7").unwrap().unwrap();
        let compressed = fs::read(directory.path().join(&archived.path)).unwrap();
        let mut text = String::new();
        GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
        write("packed", &compressed);
        let end = text.trim_end().rfind('\n').unwrap() + 1;
        write("lines", &text.as_bytes()[..end]);
        write("foot", &text.as_bytes()[end..]);
        write("name", archived.path.as_bytes());
        write("name-escaped", b"archive/a=2Fb/2026/11/15/tenant=2F7=20.7.0000.jsonl.gz");
    }
}
