//! Backups, increments, exports and imports of a running server under writes.

use crate::process::Process;
use crate::program::{Program, field};
use crate::terminal::Terminal;
use mainstay::{Database, Revision, Value};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A server on the database in `d`, and the command-line program.
struct Served {
    program: Program,
    process: Process,
    address: String,
}

impl Served {
    fn new() -> Served {
        let program = Program::new();
        let process = Process::serve(&program.path("d"));
        let address = process.address.to_string();
        Served { program, process, address }
    }

    fn words<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        [&["--server", &self.address][..], words].concat()
    }

    fn run(&self, words: &[&str]) -> crate::program::Done {
        self.program.run(&self.words(words))
    }

    fn fill(&self, cells: usize) {
        let mut client = self.process.client();
        for i in 0..cells {
            client.send(&["SET", &format!("cell/{i}"), &"x".repeat(4000)]);
        }
        (0..cells).for_each(|_| assert_eq!(client.receive(), r"+OK\r\n"));
    }

    /// Runs `work` while several connections write.
    fn under_load<T>(&self, work: impl FnOnce(&AtomicU64) -> T) -> T {
        let stop = AtomicBool::new(false);
        let written = AtomicU64::new(0);
        thread::scope(|scope| {
            for writer in 0..4 {
                let stop = &stop;
                let written = &written;
                let mut client = self.process.client();
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        client.send(&["INCR", &format!("count/{writer}")]);
                        client.receive();
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let done = work(&written);
            stop.store(true, Ordering::Relaxed);
            done
        })
    }
}

/// Waits for `more` further writes.
fn wait_for_more(written: &AtomicU64, more: u64) {
    let goal = written.load(Ordering::Relaxed) + more;
    while written.load(Ordering::Relaxed) < goal {
        thread::yield_now();
    }
}

fn number(object: &Value, name: &str) -> Revision {
    field(object, name).as_i64().unwrap() as Revision
}

/// The state that must be equal in two databases.
fn summary(db: &Database) -> (Revision, Vec<[u8; 32]>, Vec<mainstay::TagInfo>, Vec<u64>) {
    let hashes = db.branches().iter().map(|b| db.export_hash(&b.name).unwrap()).collect();
    let stamps = (1..=db.revision()).map(|revision| db.stamp_of(revision).unwrap()).collect();
    (db.revision(), hashes, db.tags(), stamps)
}

#[test]
fn a_full_backup_and_increments_under_load_make_the_same_database() {
    let served = Served::new();
    served.fill(200);
    served.under_load(|written| {
        wait_for_more(written, 20);
        served.run(&["backup", "0"]).ok();
        for n in 1..=3 {
            wait_for_more(written, 20);
            let before = (n - 1).to_string();
            let next = n.to_string();
            let made = served.run(&["backup", &next, "--since-file", &before]).objects().remove(0);
            assert_eq!(field(&made, "kind"), &"increment".into());
        }
    });
    served.run(&["branch", "fork", "side"]).ok();
    served.run(&["tag", "set", "v1"]).ok();
    let shown = served.program.run(&["backup", "show", "3"]).objects().remove(0);
    let since = number(&shown, "revision").to_string();
    served.run(&["backup", "4", "--since", &since]).ok();

    let files = ["0", "1", "2", "3", "4"];
    let verified = served.program.run(&[&["backup", "verify"], &files[..]].concat()).objects();
    let kinds: Vec<_> = verified.iter().map(|one| field(one, "kind").clone()).collect();
    assert_eq!((kinds.len(), &kinds[0]), (5, &"full".into()));
    let restored = served.program.run(&[&["restore", "copy"], &files[..]].concat()).objects();
    assert_eq!(restored, verified);
    let gap = served.program.run(&["restore", "gap", "0", "2"]).error();
    assert!(gap.contains("are missing") && !served.program.path("gap").exists(), "{gap}");

    let Served { program, process, .. } = served;
    process.terminate();
    assert!(process.ended().success());
    let original = Database::open(program.path("d")).unwrap();
    let copy = Database::open(program.path("copy")).unwrap();
    assert_eq!(summary(&copy), summary(&original));
    assert_eq!(copy.revision(), number(&verified[4], "revision"));
}

/// Kills the program once the file has `at_least` bytes. Returns whether the program was still running the
/// download.
fn kill_at(served: &Served, at_least: u64) -> bool {
    let mut command = served.program.command(&served.words(&["backup", "file"]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (file, part) = (served.program.path("file"), served.program.path("file.part"));
    let there = || part.metadata().is_ok_and(|data| data.len() >= at_least);
    while !there() && child.try_wait().unwrap().is_none() {
        thread::yield_now();
    }
    // The program may have just ended.
    let _ = child.kill();
    child.wait().unwrap();
    if !file.exists() {
        return true;
    }
    mainstay::verify_backup(&file).expect("a file under its own name is whole");
    fs::remove_file(file).unwrap();
    false
}

/// A killed program never leaves a partial file under the name of the backup.
#[test]
fn a_program_that_is_killed_leaves_no_half_file() {
    let served = Served::new();
    served.fill(2000);
    let killed = served.under_load(|_| {
        [0, 1, 1 << 20, 4 << 20].map(|at_least| kill_at(&served, at_least)).map(usize::from)
    });
    assert!(killed.iter().sum::<usize>() > 0, "none was killed in the middle");
    served.run(&["backup", "file"]).ok();
    assert!(!served.program.path("file.part").exists(), "what was left is taken over");
    served.program.run(&["restore", "copy", "file"]).ok();
}

/// A foreign HTTP server that sends these bytes to its first client.
fn stranger(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&answer);
    });
    address
}

/// A foreign, slow HTTP server. It signals when a request arrives, and sends each piece when the test allows
/// it.
fn slow_stranger(pieces: Vec<Vec<u8>>) -> (String, Receiver<()>, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let ((ask, asked), (go_on, told)) = (channel(), channel());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        ask.send(()).unwrap();
        for piece in pieces {
            told.recv().unwrap();
            let _ = stream.write_all(&piece);
        }
        // Keeps the connection open until the client disconnects or the test ends.
        let _ = told.recv();
    });
    (address, asked, go_on)
}

#[test]
fn an_interruption_leaves_no_half_file() {
    for signal in [Signal::INT, Signal::TERM] {
        let program = Program::new();
        let (address, asked, _go_on) = slow_stranger(Vec::new());
        let mut command = program.command(&["backup", "file", "--http", &address]);
        let mut child = command.spawn().unwrap();
        asked.recv().unwrap();
        assert!(program.path("file.part").exists());
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(signal.as_raw()));
        assert!(!program.path("file.part").exists() && !program.path("file").exists());
    }
}

/// The server disconnects after the request, like one that is killed while it makes the file.
#[test]
fn a_server_that_goes_away_in_the_middle_is_told() {
    let program = Program::new();
    let (address, asked, go_on) = slow_stranger(Vec::new());
    let mut command = program.command(&["backup", "file", "--http", &address]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    asked.recv().unwrap();
    drop(go_on);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{said}");
    assert!(said.contains("ask again"), "{said}");
    let left = [program.path("file.part"), program.path("file")];
    assert!(left.iter().all(|path| !path.exists()), "nothing is left");
}

#[test]
fn the_bar_says_that_the_server_works_and_then_counts_bytes() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    program.data(&["backup", "whole"]).ok();
    let bytes = fs::read(program.path("whole")).unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let pieces = vec![[head.as_bytes(), first].concat(), rest.to_vec()];
    let (address, _asked, go_on) = slow_stranger(pieces);
    let mut terminal = Terminal::start(&program, &format!("backup file --http {address} -o raw"));
    terminal.see("the server makes the file  0s");
    go_on.send(()).unwrap();
    terminal.see("receiving");
    terminal.see(&format!("/{} B", bytes.len()));
    go_on.send(()).unwrap();
    terminal.see("full\t");
}

#[test]
fn a_url_without_its_beginning_is_told_so() {
    let said = Program::new().run(&["backup", "file", "--http", "127.0.0.1:1"]).error();
    assert!(said.contains("--http wants a URL, as http://127.0.0.1:1"), "{said}");
    let words = ["--tls", "backup", "file", "--http", "127.0.0.1:1/"];
    let said = Program::new().run(&words).error();
    assert!(said.contains("as https://127.0.0.1:1"), "{said}");
}

#[test]
fn half_a_file_and_a_changed_one_are_not_kept() {
    let served = Served::new();
    served.run(&["cell", "set", "a", "1"]).ok();
    served.run(&["backup", "whole"]).ok();
    let mut bytes = fs::read(served.program.path("whole")).unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
    let half = [head.as_bytes(), &bytes[..bytes.len() / 2]].concat();
    let said = served.program.run(&["backup", "file", "--http", &stranger(half)]).error();
    let stopped = format!("after {} of {} bytes", bytes.len() / 2, bytes.len());
    assert!(said.contains(&stopped), "{said}");
    bytes[60] ^= 1;
    let changed = [head.as_bytes(), &bytes].concat();
    let said = served.program.run(&["backup", "file", "--http", &stranger(changed)]).error();
    assert!(said.contains("damaged at byte") && said.contains("ask again"), "{said}");
    let odd = b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnope".to_vec();
    let said = served.program.run(&["backup", "file", "--http", &stranger(odd)]).error();
    assert!(said.contains("nope") && said.contains("--http wants"), "{said}");
    let said = served.program.run(&["backup", "file", "--http", "http://127.0.0.1:1"]).error();
    assert!(said.contains("--http URL"), "{said}");
    assert!(!served.program.path("file").exists() && !served.program.path("file.part").exists());
}

#[test]
fn an_increment_of_another_database_is_refused() {
    let served = Served::new();
    served.run(&["cell", "set", "a", "1"]).ok();
    served.program.run(&["--data", "other", "cell", "set", "a", "1"]).ok();
    served.program.run(&["--data", "other", "backup", "other.backup"]).ok();
    served.run(&["backup", "own.backup"]).ok();
    let said = served.run(&["backup", "file", "--since-file", "other.backup"]).error();
    assert!(said.contains("this is database"), "{said}");
    let other = ["--data", "other", "backup", "file", "--since-file", "own.backup"];
    let said = served.program.run(&other).error();
    assert!(said.contains("the previous backup is of database"), "{said}");
    let said = served.run(&["backup", "file", "--since", "1000"]).error();
    assert!(said.contains("FutureRevision"), "{said}");
    let said = served.run(&["backup", "own.backup"]).error();
    assert!(said.contains("exists already"), "{said}");
    served.run(&["backup", "file", "--since-file", "none"]).error();
    assert!(!served.program.path("file").exists() && !served.program.path("file.part").exists());
}

/// A limit on file sizes simulates a full disk.
#[test]
fn a_file_that_cannot_be_written_here_is_told() {
    let served = Served::new();
    served.fill(500);
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_mainstay")]);
    shell.args(served.words(&["backup", "file"])).current_dir(served.program.root());
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("file.part cannot be written"), "{said}");
    assert!(!served.program.path("file").exists() && !served.program.path("file.part").exists());
}

#[test]
fn a_branch_goes_out_of_a_server_and_into_another() {
    let from = Served::new();
    let to = Served::new();
    from.run(&["cell", "set", "a", "1"]).ok();
    from.run(&["cell", "set", "a", "2"]).ok();
    from.run(&["branch", "fork", "team/a b"]).ok();
    from.run(&["tag", "set", "v1"]).ok();
    let file = to.program.path("file");
    let file = file.to_str().unwrap();
    let export = from.run(&["export", file, "-b", "team/a b"]).objects().remove(0);
    assert_eq!((number(&export, "cells"), number(&export, "versions")), (1, 2));
    let import = to.run(&["import", "file", "copy/ä"]).objects().remove(0);
    let source = (field(&import, "source"), number(&import, "versions"));
    assert_eq!(source, (&"team/a b".into(), 2));
    let history = to.run(&["cell", "history", "a", "-b", "copy/ä"]).objects();
    assert_eq!(history.len(), 2);
    let said = to.run(&["import", "file", "copy/ä"]).not_held();
    assert!(said.contains("BranchExists") && !said.contains("command"), "{said}");
    from.run(&["export", "other", "-b", "none"]).not_held();
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
    let said = to.run(&["import", "file", "third"]).error();
    assert!(said.contains("damaged at byte"), "{said}");
}
