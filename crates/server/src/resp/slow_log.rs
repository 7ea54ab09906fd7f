//! The slow log: a bounded list of the last commands that took longer than a threshold.
//!
//! The measured time is the time that the server adds: from taking the command to having its reply,
//! including the fsync of its batch. The commands of a pipeline are measured together, so each of them
//! counts the time of the whole pipeline. Long work is measured alone, without its wait for a worker.

use super::Shared;
use super::connection_state::ConnectionState;
use super::table::{self, Group};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// The most bytes of a command that are kept: its name and the beginning of its first argument.
const KEPT_BYTES: usize = 64;
/// The most commands of one connection logged at once, because they all waited for the same fsync.
const PIPELINE_LIMIT: usize = 8;
/// The most commands of one batch that are logged.
pub const BATCH_LIMIT: usize = 32;
/// The least time between two messages about slow commands in the program's log.
const MESSAGE_INTERVAL_US: u64 = 10_000_000;

/// Summary of a command, kept until its duration is known. It is created for each command, so it has to be
/// cheap.
#[derive(Clone, Copy, Debug)]
pub struct CommandSummary {
    bytes: [u8; KEPT_BYTES],
    name_bytes: u8,
    argument_bytes: u8,
    /// True if the argument was longer.
    truncated: bool,
    words: u32,
}

impl Default for CommandSummary {
    fn default() -> CommandSummary {
        let bytes = [0; KEPT_BYTES];
        CommandSummary { bytes, name_bytes: 0, argument_bytes: 0, truncated: false, words: 0 }
    }
}

impl CommandSummary {
    /// Creates the summary of a request.
    pub fn new(words: &[&[u8]]) -> CommandSummary {
        let mut summary = CommandSummary {
            words: u32::try_from(words.len()).unwrap_or(u32::MAX),
            ..CommandSummary::default()
        };
        let name = words.first().copied().unwrap_or_default();
        let argument = words.get(1).copied().unwrap_or_default();
        let name = &name[..name.len().min(KEPT_BYTES / 2)];
        let stored = &argument[..argument.len().min(KEPT_BYTES - name.len())];
        summary.bytes[..name.len()].copy_from_slice(name);
        summary.bytes[name.len()..name.len() + stored.len()].copy_from_slice(stored);
        summary.name_bytes = name.len() as u8;
        summary.argument_bytes = stored.len() as u8;
        summary.truncated = stored.len() < argument.len();
        summary
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        let (name, rest) = self.bytes.split_at(usize::from(self.name_bytes));
        (name, &rest[..usize::from(self.argument_bytes)])
    }

    /// Returns the name of the command, or `unknown`.
    pub fn name(&self) -> &'static str {
        table::by_name(self.parts().0).map_or("unknown", |spec| spec.name)
    }

    /// Returns the words to show. A word that is not known to be a name is hidden, because it could be a
    /// secret.
    pub fn words(&self) -> Vec<String> {
        let (name, argument) = self.parts();
        let mut words = vec![self.name().to_owned()];
        if self.words < 2 {
            return words;
        }
        words.push(match table::by_name(name).map(|spec| spec.group) {
            None | Some(Group::Connection | Group::Server | Group::Wire) => "(hidden)".to_owned(),
            Some(_) => {
                let argument = String::from_utf8_lossy(argument);
                if self.truncated { format!("{argument}...") } else { argument.into_owned() }
            }
        });
        if self.words > 2 {
            words.push(format!("... ({} more arguments)", self.words - 2));
        }
        words
    }
}

/// The client of a slow command.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The address of the client.
    pub address: String,
    /// The name that the client gave itself.
    pub name: String,
}

impl ConnectionState {
    /// Returns the address and name of the client.
    pub fn client(&self) -> ClientInfo {
        ClientInfo { address: self.peer.clone(), name: self.name.clone() }
    }

    /// Logs slow commands of this session. Returns how many were logged.
    pub fn log_slow(&self, commands: impl Iterator<Item = CommandSummary>, took_us: u64) -> usize {
        let Shared { slow_log, .. } = &*self.shared;
        slow_log.log(commands, &self.client(), self.shared.now(), took_us)
    }
}

/// A slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// Its number, which increases while the server runs.
    pub id: u64,
    /// The time of its reply, in microseconds since 1970.
    pub at_us: u64,
    /// Its duration in microseconds.
    pub took_us: u64,
    /// Its name, and the beginning of its first argument.
    pub words: Vec<String>,
    /// The address of the client.
    pub client: String,
    /// The name that the client gave itself.
    pub client_name: String,
}

#[derive(Debug, Default)]
struct SlowLogState {
    next: u64,
    entries: VecDeque<SlowCommand>,
    /// Time of the last message in the program's log, and the number of slow commands since then that had
    /// no message.
    last_message_us: Option<u64>,
    suppressed: u64,
}

/// The log of slow commands.
#[derive(Debug)]
pub struct SlowLog {
    threshold_us: u64,
    length: usize,
    state: Mutex<SlowLogState>,
}

impl SlowLog {
    /// Creates a log of the last `length` commands that took at least `threshold_us` microseconds. A
    /// threshold of 0 disables it.
    pub fn new(threshold_us: u64, length: usize) -> SlowLog {
        SlowLog { threshold_us, length, state: Mutex::default() }
    }

    /// Returns whether the log is enabled.
    pub fn is_on(&self) -> bool {
        self.threshold_us > 0
    }

    /// Returns whether a duration is slow.
    pub fn is_slow(&self, took_us: u64) -> bool {
        self.is_on() && took_us >= self.threshold_us
    }

    /// Logs commands of one client that were slow together, but only the first few. Returns how many were
    /// logged.
    pub fn log(
        &self,
        commands: impl Iterator<Item = CommandSummary>,
        client: &ClientInfo,
        at_us: u64,
        took_us: u64,
    ) -> usize {
        let mut state = self.state.lock();
        let before = state.next;
        for summary in commands.take(PIPELINE_LIMIT) {
            let id = state.next;
            state.next += 1;
            let entry = SlowCommand {
                id,
                at_us,
                took_us,
                words: summary.words(),
                client: client.address.clone(),
                client_name: client.name.clone(),
            };
            crate::telemetry::spans::slow(summary.name(), at_us, took_us);
            state.log_message(&entry);
            state.entries.push_front(entry);
        }
        state.entries.truncate(self.length);
        (state.next - before) as usize
    }

    /// Returns up to `limit` entries, the newest first.
    pub fn newest(&self, limit: usize) -> Vec<SlowCommand> {
        self.state.lock().entries.iter().take(limit).cloned().collect()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// Returns whether the log is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries ever logged.
    pub fn total(&self) -> u64 {
        self.state.lock().next
    }

    /// Removes all entries.
    pub fn reset(&self) {
        self.state.lock().entries.clear();
    }
}

impl SlowLogState {
    /// Writes a message to the program's log, with a rate limit, because a slow disk makes all commands
    /// slow.
    fn log_message(&mut self, entry: &SlowCommand) {
        if self
            .last_message_us
            .is_some_and(|last_us| entry.at_us.saturating_sub(last_us) < MESSAGE_INTERVAL_US)
        {
            self.suppressed += 1;
            return;
        }
        self.last_message_us = Some(entry.at_us);
        let untold = std::mem::take(&mut self.suppressed);
        let command = entry.words.join(" ");
        let SlowCommand { took_us, client, .. } = entry;
        tracing::info!(command, took_us, %client, untold, "a command was slow");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&[u8]]) -> String {
        CommandSummary::new(words).words().join(" ")
    }

    #[test]
    fn a_command_is_shown_by_its_name_and_the_beginning_of_its_first_argument() {
        assert_eq!(shown(&[b"SET", b"user:1", b"value"]), "set user:1 ... (1 more arguments)");
        assert_eq!(shown(&[b"ping"]), "ping");
        let long = shown(&[b"get", &[b'k'; 500]]);
        assert_eq!(long, format!("get {}...", "k".repeat(KEPT_BYTES - 3)));
    }

    #[test]
    fn what_could_be_a_secret_is_not_shown() {
        assert_eq!(shown(&[b"AUTH", b"secret"]), "auth (hidden)");
        assert_eq!(shown(&[b"secret", b"more"]), "unknown (hidden)");
        assert_eq!(shown(&[&[b's'; 100], b"more"]), "unknown (hidden)");
        assert!(!shown(&[b"set", b"name", b"secret"]).contains("secret"));
    }

    #[test]
    fn the_newest_come_first_and_the_oldest_go() {
        let client = ClientInfo { address: "here".to_owned(), name: String::new() };
        let log = SlowLog::new(10, 3);
        assert!(log.is_slow(10) && !log.is_slow(9));
        for i in 0..5 {
            log.log([CommandSummary::new(&[b"get", b"a"])].into_iter(), &client, i, 10 + i);
        }
        let ids: Vec<u64> = log.newest(2).iter().map(|entry| entry.id).collect();
        assert_eq!((ids.as_slice(), log.len(), log.total()), ([4, 3].as_slice(), 3, 5));
        log.reset();
        assert_eq!((log.len(), log.total()), (0, 5), "numbers go on");
        let many = std::iter::repeat_n(CommandSummary::new(&[b"get", b"a"]), 1000);
        log.log(many, &client, 9, 10);
        assert_eq!(log.total(), 5 + PIPELINE_LIMIT as u64);
    }

    #[test]
    fn zero_is_off() {
        assert!(!SlowLog::new(0, 3).is_slow(u64::MAX));
    }
}
