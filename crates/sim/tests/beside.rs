//! What lies beside a database: archives of runs, checkpoints, files of sinks. Power fails there, too.

use mainstay::{Database, KeyedState, LogicalTime, NewEvent, Options, StateWrite};
use mainstay_conformance::random::Random;
use mainstay_runs::archive::{Archive, ArchiveSettings, ArchiveStore, Outcome, StoreSettings};
use mainstay_runs::relay::{FileTransport, Relay, RelaySettings};
use mainstay_sim::cuts::{Recording, Start};
use mainstay_sim::disk::{Event, Homes, Model, Mount, Tape, Tree};
use mainstay_streams::{
    Cause, Checkpoints, FileSink, Job, MemoryState, Opened, Output, Shelf, Sink,
};
use std::io::Read;
use std::path::Path;

/// Does something on a disk; then looks at what is left of it when power fails, at each boundary, in each way, with what had been
/// said by then.
fn cut_off(perform: impl FnOnce(&Path, &dyn Fn(&str)), verify: impl Fn(&Path, &[&str])) {
    let homes = Homes::make().unwrap();
    let mount = Mount::new(Tree::default(), &homes.mounted).unwrap();
    let tape: Tape = mount.tape().clone();
    perform(mount.directory(), &|line| tape.push(Event::Note(line.to_owned())));
    let events = tape.take();
    mount.end().unwrap();
    let recording = Recording { generation: 0, start: Start::default(), events };
    let mut platter = recording.start.platter();
    let (mut at, mut said, mut cuts) = (0, Vec::new(), 0);
    for cut in recording.boundaries() {
        for event in &recording.events[at..cut] {
            platter.apply(event);
            if let Event::Note(line) = event {
                said.push(line.as_str());
            }
        }
        at = cut;
        // Before anything was said nothing is promised.
        for model in Model::ALL.into_iter().filter(|_| !said.is_empty()) {
            platter.cut(model, &mut Random::of(&[cut as u64])).write(&homes.image).unwrap();
            verify(&homes.image, &said);
            cuts += 1;
        }
    }
    assert!(cuts > 100, "{cuts} cuts");
}

const RUNS: [&str; 3] = ["a", "b", "c"];

fn archive(db: &Database, root: &Path) -> Archive {
    let path = root.join("srv/archives/of/runs");
    let store = ArchiveStore::open(&StoreSettings::Directory { path }).unwrap();
    let settings = ArchiveSettings { older_than_ms: 0, ..ArchiveSettings::default() };
    Archive::new(db, store, settings).unwrap()
}

fn database(root: &Path) -> Database {
    Options::new().segment_bytes(64 << 10).open(root.join("srv/db")).unwrap()
}

/// A run is deleted when the archive has it for good.
#[test]
fn a_run_is_in_the_database_or_in_the_archive() {
    let perform = |root: &Path, say: &dyn Fn(&str)| {
        let db = database(root);
        for run in RUNS {
            for kind in ["RunStarted", "RunCompleted"] {
                db.runs().append(NewEvent::new(run, kind).plan("1")).unwrap();
            }
        }
        say("written");
        let archive = archive(&db, root);
        for run in RUNS {
            assert!(matches!(archive.archive(run).unwrap(), Outcome::Archived { .. }));
            say(run);
        }
        db.close().unwrap();
    };
    cut_off(perform, |root, said| {
        let db = database(root);
        let archive = archive(&db, root);
        for run in RUNS {
            let is_here = db.runs().get(run).unwrap().is_some();
            assert!(!is_here || !said.contains(&run), "{run} was archived and is here");
            if !is_here {
                let archived = archive.find(run).unwrap();
                let archived = archived.unwrap_or_else(|| panic!("LOST: {run}, {said:?}"));
                archive.import(&archived).unwrap();
            }
            assert_eq!(db.runs().fetch(run, 0, 10).unwrap().len(), 2, "{run}, {said:?}");
        }
    });
}

/// A checkpoint that was taken can be restored.
#[test]
fn a_checkpoint_that_was_taken_is_there() {
    let open = |root: &Path| {
        let shelf = Shelf::directory(root.join("srv/checkpoints/of/jobs")).unwrap();
        Checkpoints::open(shelf, Job::new("job", "counts")).unwrap().keep(2)
    };
    let perform = |root: &Path, say: &dyn Fn(&str)| {
        let space = Database::memory().unwrap().keyed("counts").unwrap();
        let checkpoints = open(root);
        for round in 1..=4_u64 {
            let put = StateWrite::put("key", format!("{round}"), round);
            space.write(vec![put, StateWrite::advance("source", round)]).unwrap();
            let manifest = checkpoints.take(&space).unwrap();
            say(&manifest.checkpoint.to_string());
        }
    };
    cut_off(perform, |root, said| {
        let newest: u64 = said.last().unwrap().parse().unwrap();
        let checkpoints = open(root);
        let kept = checkpoints.list().unwrap();
        let restored = kept.iter().rev().find(|id| **id >= newest);
        let restored = *restored.unwrap_or_else(|| panic!("LOST: checkpoint {newest}: {kept:?}"));
        let state = MemoryState::new();
        checkpoints.restore(restored, 0, &state).unwrap();
        let value = state.get(b"key").unwrap().map(|state| state.value.to_vec());
        assert_eq!(value, Some(restored.to_string().into_bytes()), "{said:?}");
    });
}

fn outputs(range: std::ops::Range<u64>) -> Vec<Output<String>> {
    let output =
        |n| Output::new("o", b"k", Cause::Item(LogicalTime::new(0, n)), 0, format!("output {n}"));
    range.map(output).collect()
}

/// What a sink has prepared it still holds, and what it has committed is seen.
#[test]
fn what_a_sink_has_prepared_and_committed_is_there() {
    let place = |root: &Path| root.join("srv/sinks/of/jobs");
    let perform = |root: &Path, say: &dyn Fn(&str)| {
        let mut sink = FileSink::<String>::new("out", place(root));
        assert_eq!(sink.open(0).unwrap(), Opened::Ready);
        for checkpoint in 1..=4 {
            let position = sink.write(&outputs(checkpoint * 10..checkpoint * 10 + 10)).unwrap();
            sink.prepare(checkpoint).unwrap();
            say(&format!("prepared {position}"));
            sink.commit(checkpoint, position).unwrap();
            say(&format!("committed {position}"));
        }
    };
    cut_off(perform, |root, said| {
        let position = |what: &str| -> u64 {
            let last = said.iter().rev().find_map(|line| line.strip_prefix(what));
            last.map_or(0, |position| position.trim().parse().unwrap())
        };
        let mut text = String::new();
        if position("committed") > 0 {
            FileSink::<String>::read(place(root)).unwrap().read_to_string(&mut text).unwrap();
        }
        let all: String = (10..50).map(|n| format!("\"output {n}\"\n")).collect();
        assert!(text.len() as u64 >= position("committed"), "LOST: {text}, {said:?}");
        assert!(all.starts_with(&text), "{text}, {said:?}");
        let mut sink = FileSink::<String>::new("out", place(root));
        assert_eq!(sink.open(position("prepared")).unwrap(), Opened::Ready, "LOST: {said:?}");
    });
}

/// A message is in the outbox until the file has it for good.
#[test]
fn a_message_is_in_the_outbox_or_in_the_file() {
    let messages = ["first", "second", "third", "fourth"];
    let file = |root: &Path| root.join("srv/messages.jsonl");
    let perform = |root: &Path, say: &dyn Fn(&str)| {
        let db = database(root);
        for message in messages {
            db.outbox().put("s", message, None).unwrap();
        }
        say("written");
        let settings = RelaySettings { batch: 1, ..RelaySettings::default() };
        let relay = Relay::new(&db, FileTransport::open(file(root)).unwrap(), settings).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        while db.outbox().state().unwrap().pending > 0 {
            runtime.block_on(relay.round()).unwrap();
            say("a round");
        }
        db.close().unwrap();
    };
    cut_off(perform, |root, said| {
        let outbox = database(root).outbox();
        let pending = outbox.state().unwrap().pending as usize;
        drop(FileTransport::open(file(root)).unwrap());
        let text = String::from_utf8_lossy(&std::fs::read(file(root)).unwrap()).into_owned();
        // They leave in their order.
        let mut delivered = messages.iter().take(messages.len() - pending);
        let lost = delivered.find(|message| !text.contains(&format!("\"{message}\"")));
        assert_eq!(lost, None, "LOST: {text}, {pending}, {said:?}");
    });
}
