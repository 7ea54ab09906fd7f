//! `kill -9` and `SIGTERM` under load: all acknowledged writes are present, and the stored writes are a
//! prefix of the sent ones.

mod process;
#[path = "../../server/tests/support/mod.rs"]
mod support;

use process::Process;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use support::Client;

const WRITERS: usize = 16;
const CYCLES: u64 = 8;
/// Number of commands that a writer sends before it reads the replies.
const PIPELINE: u64 = 24;
/// Number of keys that a writer sets round-robin.
const SLOTS: u64 = 8;

/// An endless numbered sequence of commands of one connection. The number determines the command, its
/// reply, and the state after it and all commands before it.
struct Writer {
    id: usize,
    /// Number of acknowledged commands, and of sent commands.
    acknowledged: u64,
    sent: u64,
}

impl Writer {
    fn new(id: usize) -> Writer {
        Writer { id, acknowledged: 0, sent: 0 }
    }

    fn key(&self, kind: &str) -> String {
        format!("{kind}:{}", self.id)
    }

    fn command(&self, number: u64) -> Vec<u8> {
        let turn = number / 3;
        let word = |text: &str| text.to_owned();
        support::encode(&match number % 3 {
            0 => vec![word("INCR"), self.key("count")],
            1 => vec![word("SET"), self.key(&format!("own:{}", turn % SLOTS)), turn.to_string()],
            _ => {
                let expected = if turn == 0 { word("NIL") } else { turn.to_string() };
                vec![word("CELL.CAS"), self.key("chain"), expected, format!("link {turn}")]
            }
        })
    }

    fn reply(number: u64) -> String {
        match number % 3 {
            1 => r"+OK\r\n".to_owned(),
            _ => format!(r":{}\r\n", number / 3 + 1),
        }
    }

    /// Writes until the connection ends.
    fn run(&mut self, client: &mut Client, total: &AtomicU64) {
        loop {
            let numbers = self.sent..self.sent + PIPELINE;
            let bytes: Vec<u8> = numbers.clone().flat_map(|n| self.command(n)).collect();
            self.sent = numbers.end;
            if !client.send_or_end(&bytes) {
                // Earlier replies can still be read.
                return self.take_replies(client, total);
            }
            self.take_replies(client, total);
            if self.acknowledged < self.sent {
                return;
            }
        }
    }

    fn take_replies(&mut self, client: &mut Client, total: &AtomicU64) {
        while self.acknowledged < self.sent {
            let Some(reply) = client.receive_or_end() else { return };
            assert_eq!(reply, Writer::reply(self.acknowledged), "of {}", self.acknowledged);
            self.acknowledged += 1;
            total.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the state after `done` commands: value and counter of each key of this writer.
    fn state_after(&self, done: u64) -> Vec<Option<(String, u64)>> {
        let counted = done.div_ceil(3);
        let set = (done + 1) / 3;
        let chained = done / 3;
        let mut state = vec![
            (counted > 0).then(|| (counted.to_string(), counted)),
            (chained > 0).then(|| (format!("link {}", chained - 1), chained)),
        ];
        for slot in 0..SLOTS {
            let writes = (set + SLOTS - 1 - slot) / SLOTS;
            let newest = (writes > 0).then(|| slot + (writes - 1) * SLOTS);
            state.push(newest.map(|turn| (turn.to_string(), writes)));
        }
        state
    }

    fn stored(&self, client: &mut Client) -> Vec<Option<(String, u64)>> {
        let own = (0..SLOTS).map(|slot| self.key(&format!("own:{slot}")));
        let keys = [self.key("count"), self.key("chain")].into_iter().chain(own);
        keys.map(|key| value_and_counter(&client.call(&["CELL.GETV", &key]))).collect()
    }

    /// Finds how many commands were executed. They have to be a prefix of the sent commands that includes
    /// all acknowledged ones.
    fn settle(&mut self, client: &mut Client) {
        let stored = self.stored(client);
        let done = (self.acknowledged..=self.sent).find(|&done| self.state_after(done) == stored);
        let Some(done) = done else {
            let acknowledged = self.state_after(self.acknowledged);
            panic!(
                "writer {}: acknowledged {} and sent {}, so at least {acknowledged:?}, stored {stored:?}",
                self.id, self.acknowledged, self.sent
            );
        };
        self.acknowledged = done;
        self.sent = done;
    }
}

/// Parses a reply of `CELL.GETV`.
fn value_and_counter(reply: &str) -> Option<(String, u64)> {
    let parts: Vec<&str> = reply.split(r"\r\n").collect();
    match parts.as_slice() {
        ["*4", _, value, counter, ..] => Some(((*value).to_owned(), counter[1..].parse().unwrap())),
        _ => None,
    }
}

/// Lets all writers write until `end` has stopped the server. `end` is called when `enough` commands are
/// acknowledged.
fn write_until(server: &Process, writers: &mut [Writer], enough: u64, end: impl FnOnce()) {
    let total = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in writers {
            let mut client = server.client();
            let total = &total;
            scope.spawn(move || writer.run(&mut client, total));
        }
        while total.load(Ordering::Relaxed) < enough {
            thread::sleep(Duration::from_millis(1));
        }
        end();
    });
}

/// SIGHUP, which `systemctl reload` sends, does not stop a server that has no files to reload.
#[test]
fn sighup_alone_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(&directory.path().join("data"));
    let mut client = server.client();
    server.hang_up();
    assert_eq!(client.line("SET a 1"), r"+OK\r\n");
    assert_eq!(server.client().line("GET a"), r"$1\r\n1\r\n");
    server.terminate();
    assert!(server.ended().success());
}

/// Returns the path and all paths below it that other users than the owner can access, with their modes.
fn open_to_others(path: &std::path::Path) -> Vec<(std::path::PathBuf, u32)> {
    let mode = path.symlink_metadata().unwrap().permissions().mode() & 0o777;
    let entries = std::fs::read_dir(path).into_iter().flatten();
    let below = entries.flat_map(|entry| open_to_others(&entry.unwrap().path()));
    let own = (mode & 0o077 != 0).then(|| (path.to_owned(), mode));
    own.into_iter().chain(below).collect()
}

/// Gives all users the permissions of the owner, as a copy made with a loose umask may have them.
fn open_up(path: &std::path::Path) {
    let mode = if path.is_dir() { 0o777 } else { 0o666 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        open_up(&entry.unwrap().path());
    }
}

#[test]
fn what_a_server_has_is_its_owners_alone_and_stopping_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for life in 0..3 {
        open_up(&data);
        let lines = directory.path().join(format!("lines {life}"));
        let complaints = std::fs::File::create(&lines).unwrap();
        let server = Process::serve_with(&data, &[], complaints.into());
        let mut client = server.client();
        for n in 0..50 {
            client.line(&format!("SET k{n} 1 PX {}", 1 + n));
        }
        server.terminate();
        assert!(server.ended().success());
        assert_eq!(open_to_others(&data), []);
        let told = std::fs::read_to_string(&lines).unwrap();
        assert!(told.contains("stopped") && !told.contains("ERROR"), "{told}");
    }
}

/// Two processes on one directory: the second is rejected even without the `LOCK` file, and the first loses
/// nothing.
#[test]
fn a_second_server_is_refused_without_the_lock_file() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Process::serve(&data);
    let mut client = server.client();
    assert_eq!(client.line("SET a 1"), r"+OK\r\n");
    std::fs::remove_file(data.join("LOCK")).unwrap();
    let mut second = std::process::Command::new(env!("CARGO_BIN_EXE_mainstay"));
    second.args(["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"]).arg(&data);
    let refused = second.stdin(std::process::Stdio::null()).output().unwrap();
    assert!(!refused.status.success());
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(complaint.contains("open in another process"), "{complaint}");
    assert_eq!(client.line("GET a"), r"$1\r\n1\r\n");
    server.terminate();
    assert!(server.ended().success());
    let server = Process::serve(&data);
    assert_eq!(server.client().line("GET a"), r"$1\r\n1\r\n");
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    for cycle in 0..CYCLES {
        let server = Process::serve(&data);
        let mut client = server.client();
        writers.iter_mut().for_each(|writer| writer.settle(&mut client));
        // Kills early and late in the life of a server.
        let enough = 1 + cycle * cycle * 211;
        write_until(&server, &mut writers, enough, || server.kill());
        // The directory stays locked until the process is gone.
        assert!(!server.ended().success());
    }
    let server = Process::serve(&data);
    let mut client = server.client();
    writers.iter_mut().for_each(|writer| writer.settle(&mut client));
    assert!(writers.iter().map(|writer| writer.sent).sum::<u64>() > 1_000);
}

#[test]
fn after_sigterm_exactly_what_was_answered_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    for cycle in 1..=4 {
        let server = Process::serve(&data);
        write_until(&server, &mut writers, cycle * 500, || server.terminate());
        assert!(server.ended().success());
        // Every executed command was acknowledged.
        writers.iter_mut().for_each(|writer| writer.sent = writer.acknowledged);
        let server = Process::serve(&data);
        let mut client = server.client();
        writers.iter_mut().for_each(|writer| writer.settle(&mut client));
        server.terminate();
        assert!(server.ended().success());
    }
}

#[test]
fn what_had_come_before_sigterm_is_answered() {
    // More than one turn takes, but few enough to be in progress at once.
    const COUNT: usize = 5_000;
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(&directory.path().join("data"));
    let mut client = server.client();
    assert_eq!(client.call(&["PING"]), r"+PONG\r\n");
    client.send_bytes(&b"INCR k\r\n".repeat(COUNT));
    server.terminate();
    for number in 1..=COUNT {
        assert_eq!(client.receive_or_end(), Some(format!(r":{number}\r\n")));
    }
    assert_eq!(client.receive_or_end(), None);
    assert!(server.ended().success());
}

#[test]
fn those_who_wait_for_changes_are_answered_at_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(&directory.path().join("data"));
    let mut waiting = server.client();
    waiting.send(&["FEED.READ", "WAIT", "86400000"]);
    let mut watching = server.client();
    assert!(watching.call(&["HELLO", "3"]).starts_with('%'));
    assert_eq!(watching.call(&["FEED.WATCH"]), r"+OK\r\n");
    server.terminate();
    assert_eq!(waiting.receive_or_end(), Some(r"*0\r\n".to_owned()));
    assert_eq!(watching.receive_or_end(), None);
    assert!(server.ended().success());
}

#[test]
fn a_client_that_does_not_read_cannot_hold_up_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(&directory.path().join("data"));
    let mut client = server.client();
    client.call(&["SET", "big", &"x".repeat(8 << 20)]);
    client.send(&["GET", "big"]);
    // The first bytes have arrived, so the server is sending a reply that the client will not read.
    client.peek();
    server.terminate();
    assert!(server.ended().success());
}
