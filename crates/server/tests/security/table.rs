//! Test tables of commands: the permission that each command needs, tried by a user for every combination
//! of permissions.

use crate::world::{World, user};
use mainstay_server::resp::table::{self, Group};
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Every command of some groups with the permission it needs, and users with the commands they may execute.
/// The last user has unrelated permissions.
pub struct Table<N: 'static> {
    pub users: &'static [(&'static str, &'static [&'static str], &'static [N])],
    pub lines: &'static [(&'static str, N)],
    pub groups: &'static [Group],
    /// Creates state for the commands.
    pub fill: fn(&World),
    /// Returns the words of a line.
    pub words: fn(&World, &str) -> Vec<Vec<u8>>,
}

/// Splits a line into its words.
pub fn as_they_are(_: &World, line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

impl<N: PartialEq + Debug> Table<N> {
    /// Starts a server with these users, who have all keys.
    pub fn world(&self) -> World {
        let world = World::with(|settings| {
            let users = self.users.iter().map(|(name, allow, _)| user(name, allow, &[""]));
            settings.users.extend(users);
        });
        (self.fill)(&world);
        world
    }

    /// Checks that each command succeeds exactly for the users with its permission.
    pub fn each_needs_its_right(&self) {
        for (who, _, opens) in self.users {
            let world = self.world();
            let mut client = world.client(who);
            for (line, needs) in self.lines {
                client.send(&(self.words)(&world, line));
                let reply = client.receive();
                let denied = reply.starts_with("-NOPERM");
                assert_eq!(denied, !opens.contains(needs), "{who}: {line}: {reply}");
                assert!(denied || !reply.starts_with('-'), "{who}: {line}: {reply}");
            }
        }
    }

    /// Checks the same for queued commands.
    pub fn each_needs_it_inside_a_transaction(&self) {
        for (who, _, opens) in &self.users[..self.users.len() - 1] {
            let world = self.world();
            let mut client = world.client(who);
            for (line, needs) in self.lines {
                assert_eq!(client.line("MULTI"), r"+OK\r\n");
                client.send(&(self.words)(&world, line));
                let reply = client.receive();
                let denied = reply.starts_with("-NOPERM");
                assert_eq!(denied, !opens.contains(needs), "{who}: {line}: {reply}");
                assert_eq!(client.line("DISCARD"), r"+OK\r\n");
            }
        }
    }

    /// Checks that the lines contain all commands of the groups.
    pub fn none_is_left_out(&self) {
        let name = |line: &str| line.split(' ').next().unwrap().to_lowercase();
        let listed: BTreeSet<String> = self.lines.iter().map(|(line, _)| name(line)).collect();
        let there = table::all().filter(|spec| self.groups.contains(&spec.group));
        let there: BTreeSet<String> = there.map(|spec| spec.name.to_owned()).collect();
        assert_eq!(listed, there);
    }
}
