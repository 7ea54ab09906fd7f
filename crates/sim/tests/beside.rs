//! What lies beside a database: archives of runs, checkpoints, files of sinks. Power fails there, too.

use mainstay::{Database, KeyedState, LogicalTime, NewEvent, Options, StateWrite};
use mainstay_conformance::random::Random;
use mainstay_runs::archive::{Archive, ArchiveSettings, ArchiveStore, Outcome, StoreSettings};
use mainstay_runs::relay::{FileTransport, Relay, RelaySettings};
use mainstay_sim::cuts::{Recording, Start};
use mainstay_sim::disk::{Event, Homes, Model, Mount, Tape};
use mainstay_streams::{
    Cause, CheckpointStore, Checkpoints, FileSink, Job, MemoryState, OpenStatus, Output, Sink,
};
use std::io::Read;
use std::path::Path;

/// How often a process is killed before power fails, beside right behind each link.
const KILLS: usize = 8;

/// What is done on a disk, by one process or by several that are killed, and what has to be there of it.
struct Subject<P, V> {
    homes: Homes,
    /// Does what those before it have not done yet; is given what they had said.
    perform: P,
    /// Is given what was said by then.
    verify: V,
}

impl<P: Fn(&Path, &Said, &dyn Fn(&str)), V: Fn(&Path, &Said)> Subject<P, V> {
    fn record(&self, generation: u64, start: Start) -> Recording {
        let mount = Mount::new(start.tree(), &self.homes.mounted).unwrap();
        let tape: Tape = mount.tape().clone();
        let said = Said::of(&start.before);
        (self.perform)(mount.directory(), &said, &|line| tape.push(Event::Note(line.to_owned())));
        let events = tape.take();
        mount.end().unwrap();
        Recording { generation, start, events }
    }

    /// Looks at what is left of it when power fails, at each boundary, in each way; gives how often.
    fn cut_all(&self, recording: &Recording) -> usize {
        let mut platter = recording.start.platter();
        let mut at = 0;
        let mut cuts = 0;
        for cut in recording.boundaries() {
            recording.events[at..cut].iter().for_each(|event| platter.apply(event));
            at = cut;
            let said = Said::of(&recording.said(cut));
            // Before anything was said nothing is promised.
            for model in Model::ALL.into_iter().filter(|_| !said.0.is_empty()) {
                let left = platter.cut(model, &mut Random::of(&[cut as u64]));
                left.write(&self.homes.image).unwrap();
                (self.verify)(&self.homes.image, &said);
                cuts += 1;
            }
        }
        cuts
    }
}

/// Does something on a disk; then looks at what is left of it when power fails, with what had been said by then. And so where it was
/// killed right behind a name and the next process went on with what no disk has yet.
fn cut_off(perform: impl Fn(&Path, &Said, &dyn Fn(&str)), verify: impl Fn(&Path, &Said)) {
    let subject = Subject { homes: Homes::make().unwrap(), perform, verify };
    let first = subject.record(0, Start::default());
    let cuts = subject.cut_all(&first);
    assert!(cuts > 100, "{cuts} cuts");
    let events = first.events.iter().enumerate();
    let named = events.filter(|(_, event)| event.is_about_names()).map(|(at, _)| at + 1);
    let mut kills: Vec<usize> = named.collect();
    assert!(kills.len() >= KILLS, "{} names", kills.len());
    let mut random = Random::of(&[1]);
    let links = |at: &usize| matches!(first.events[at - 1], Event::Link { .. });
    let linked: Vec<usize> = kills.extract_if(.., |at| links(at)).collect();
    let others = (0..KILLS).map(|_| kills.swap_remove(random.below(kills.len() as u64) as usize));
    for at in linked.into_iter().chain(others) {
        subject.cut_all(&subject.record(1, first.killed_at(at)));
    }
}

/// Lines that processes have said.
#[derive(Debug)]
struct Said(Vec<String>);

impl Said {
    fn of(said: &[(u64, String)]) -> Said {
        Said(said.iter().flat_map(|(_, lines)| lines.lines().map(str::to_owned)).collect())
    }

    fn has(&self, line: &str) -> bool {
        self.0.iter().any(|said| said == line)
    }

    /// The last number that came behind a word; 0 where none has.
    fn last(&self, word: &str) -> u64 {
        let mut numbers = self.0.iter().rev().filter_map(|line| line.strip_prefix(word));
        numbers.next().map_or(0, |number| number.trim().parse().unwrap())
    }
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
    let perform = |root: &Path, said: &Said, say: &dyn Fn(&str)| {
        let db = database(root);
        if !said.has("written") {
            for run in RUNS {
                for kind in ["RunStarted", "RunCompleted"] {
                    db.runs().append(NewEvent::new(run, kind).plan("1")).unwrap();
                }
            }
            say("written");
        }
        let archive = archive(&db, root);
        for run in RUNS.into_iter().filter(|run| !said.has(run)) {
            if db.runs().get(run).unwrap().is_some() {
                assert!(matches!(archive.archive(run).unwrap(), Outcome::Archived { .. }));
            }
            say(run);
        }
        db.close().unwrap();
    };
    cut_off(perform, |root, said| {
        let db = database(root);
        let archive = archive(&db, root);
        for run in RUNS {
            let is_here = db.runs().get(run).unwrap().is_some();
            assert!(!is_here || !said.has(run), "{run} was archived and is here");
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
        let store = CheckpointStore::directory(root.join("srv/checkpoints/of/jobs")).unwrap();
        Checkpoints::open(store, Job::new("job", "counts")).unwrap().keep(2)
    };
    let perform = |root: &Path, _: &Said, say: &dyn Fn(&str)| {
        let space = Database::memory().unwrap().keyed("counts").unwrap();
        let checkpoints = open(root);
        // What it goes on from may have been shown to others by then.
        let latest = checkpoints.latest().unwrap().map_or(0, |latest| latest.checkpoint);
        say(&format!("taken {latest}"));
        for round in latest + 1..=4 {
            let put = StateWrite::put("key", format!("{round}"), round);
            space.write(vec![put, StateWrite::advance("source", round)]).unwrap();
            let manifest = checkpoints.create(&space).unwrap();
            say(&format!("taken {}", manifest.checkpoint));
        }
    };
    cut_off(perform, |root, said| {
        let newest = said.last("taken");
        if newest == 0 {
            return;
        }
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
    let perform = |root: &Path, said: &Said, say: &dyn Fn(&str)| {
        let mut sink = FileSink::<String>::new("out", place(root));
        let before = said.last("checkpoint");
        let mut position = said.last("prepared");
        assert_eq!(sink.open(position).unwrap(), OpenStatus::Ready);
        for checkpoint in before..=4 {
            if checkpoint > before {
                position = sink.write(&outputs(checkpoint * 10..checkpoint * 10 + 10)).unwrap();
                sink.prepare(checkpoint).unwrap();
                say(&format!("checkpoint {checkpoint}\nprepared {position}"));
            }
            sink.commit(checkpoint, position).unwrap();
            say(&format!("committed {position}"));
        }
    };
    cut_off(perform, |root, said| {
        let position = |what: &str| said.last(what);
        let mut text = String::new();
        if position("committed") > 0 {
            FileSink::<String>::read(place(root)).unwrap().read_to_string(&mut text).unwrap();
        }
        let all: String = (10..50).map(|n| format!("\"output {n}\"\n")).collect();
        assert!(text.len() as u64 >= position("committed"), "LOST: {text}, {said:?}");
        assert!(all.starts_with(&text), "{text}, {said:?}");
        let mut sink = FileSink::<String>::new("out", place(root));
        assert_eq!(sink.open(position("prepared")).unwrap(), OpenStatus::Ready, "LOST: {said:?}");
    });
}

/// A message is in the outbox until the file has it for good.
#[test]
fn a_message_is_in_the_outbox_or_in_the_file() {
    let messages = ["first", "second", "third", "fourth"];
    let file = |root: &Path| root.join("srv/messages.jsonl");
    let perform = |root: &Path, said: &Said, say: &dyn Fn(&str)| {
        let db = database(root);
        if !said.has("written") {
            let there = db.outbox().state().unwrap().pending as usize;
            for message in &messages[there..] {
                db.outbox().put("s", *message, None).unwrap();
            }
            say("written");
        }
        // What one has claimed who was killed is free soon.
        let settings = RelaySettings { batch: 1, lease_ms: 50, ..RelaySettings::default() };
        let relay = Relay::new(&db, FileTransport::open(file(root)).unwrap(), settings).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        while db.outbox().state().unwrap().pending > 0 {
            runtime.block_on(relay.round()).unwrap();
            say("a round");
            std::thread::sleep(std::time::Duration::from_millis(10));
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
