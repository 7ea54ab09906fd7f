//! The commands of the RESP face: what the repl completes, explains and shows as rows.

use super::shape::Shape;

/// What is known of a command.
pub struct Command {
    /// Its name, in capitals.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: &'static str,
    /// What it does, in a sentence.
    pub does: &'static str,
    /// What it answers.
    pub shape: Shape,
}

const fn command(
    name: &'static str,
    arguments: &'static str,
    does: &'static str,
    shape: Shape,
) -> Command {
    Command { name, arguments, does, shape }
}

const VERSIONED: Shape = Shape::Record(&["value", "counter", "stamp_us", "revision"]);
const SUM: Shape = Shape::Record(&["value", "counter"]);
const HISTORY: Shape = Shape::Rows(&["counter", "value", "stamp_us", "revision"]);
const DIFFERENCES: Shape = Shape::Rows(&["contract", "key", "changed_by"]);
const TAGS: Shape = Shape::Rows(&["name", "branch", "revision"]);
const CHANGES: Shape = Shape::Rows(&["revision", "stamp_us", "branch", "contract", "key", "kind"]);

/// All that the repl knows by name; a server may know more.
pub const COMMANDS: [Command; 36] = [
    command(
        "CELL.INIT",
        "name value [JSON]",
        "Writes when the cell is absent; answers its counter either way.",
        Shape::One("counter"),
    ),
    command(
        "CELL.GET",
        "name [REV revision | AT stamp_us]",
        "The value of a cell, now or at a point in time.",
        Shape::One("value"),
    ),
    command(
        "CELL.GETV",
        "name [REV revision | AT stamp_us]",
        "The value with its counter, stamp and revision.",
        VERSIONED,
    ),
    command(
        "CELL.SET",
        "name value [JSON] [TTL ms]",
        "Writes; answers the new counter. JSON stores the value with its type.",
        Shape::One("counter"),
    ),
    command(
        "CELL.CAS",
        "name NIL|counter value [JSON]",
        "Writes only when the counter is this one (NIL: when the cell is absent); answers the new \
         counter, or nil when the condition did not hold.",
        Shape::One("counter"),
    ),
    command(
        "CELL.DEL",
        "name [IF counter]",
        "Deletes; answers 1, or 0 when there was nothing to delete. The counter goes on.",
        Shape::Did("deleted"),
    ),
    command("CELL.INCR", "name [by]", "Adds to a number; answers the sum and the counter.", SUM),
    command(
        "CELL.HISTORY",
        "name [LIMIT n] [BEFORE counter]",
        "The versions of a cell, newest first, deletions included.",
        HISTORY,
    ),
    command(
        "CELL.LIST",
        "[PREFIX p] [AFTER name] [LIMIT n] [REV revision | AT stamp_us]",
        "Names in byte order.",
        Shape::List("name"),
    ),
    command(
        "BRANCH.FORK",
        "name [FROM branch] [REV revision | AT stamp_us]",
        "Makes a branch, without copying; answers the revision it starts at.",
        Shape::One("revision"),
    ),
    command("BRANCH.LIST", "", "The names of all branches.", Shape::List("name")),
    command("BRANCH.INFO", "name", "What is known of a branch.", Shape::Object),
    command("BRANCH.DELETE", "name", "Deletes a branch.", Shape::Did("deleted")),
    command(
        "BRANCH.DIFF",
        "a b",
        "The keys that two branches do not agree on, and who changed them.",
        DIFFERENCES,
    ),
    command(
        "BRANCH.MERGE",
        "from into [STRICT | THEIRS | OURS]",
        "Brings the changes of one branch into another. Where both changed a key: STRICT refuses, \
         THEIRS lets `from` win, OURS `into`.",
        Shape::One("revision"),
    ),
    command("BRANCH.USE", "name", "Works on this branch from here on.", Shape::Any),
    command(
        "TAG.SET",
        "name [REV revision | AT stamp_us]",
        "Pins a revision of this branch by name.",
        Shape::One("revision"),
    ),
    command("TAG.DEL", "name", "Removes a tag.", Shape::Did("deleted")),
    command("TAG.LIST", "", "All tags.", TAGS),
    command("TXN.BEGIN", "", "Begins a transaction: a snapshot and own writes.", Shape::Any),
    command(
        "TXN.COMMIT",
        "",
        "Commits, or answers CONFLICT when something that was read has changed.",
        Shape::One("revision"),
    ),
    command("TXN.ROLLBACK", "", "Forgets the transaction.", Shape::Any),
    command(
        "FEED.READ",
        "[AFTER revision] [PREFIX p] [LIMIT n] [WAIT ms]",
        "Committed changes, in order.",
        CHANGES,
    ),
    command("REVISION", "", "The newest visible revision.", Shape::One("revision")),
    command(
        "DURABILITY",
        "SYNC | INTERVAL | MEMORY",
        "How durable writes of this connection are when they are answered; on a server.",
        Shape::Any,
    ),
    command("PING", "", "Answers PONG.", Shape::Any),
    command("ECHO", "text", "Answers the text.", Shape::Any),
    command("GET", "name", "The value of a cell.", Shape::Any),
    command("SET", "name value [EX seconds | PX ms]", "Writes, as Redis does.", Shape::Any),
    command("DEL", "name [name ...]", "Deletes; answers how many there were.", Shape::Any),
    command("EXISTS", "name [name ...]", "How many of these cells are there.", Shape::Any),
    command("MGET", "name [name ...]", "Several values; on a server.", Shape::Any),
    command("INCR", "name", "Adds one; on a server.", Shape::Any),
    command("TTL", "name", "The seconds a cell has to live; on a server.", Shape::Any),
    command("EXPIRE", "name seconds", "Gives a cell a time to live; on a server.", Shape::Any),
    command("INFO", "", "What is known of a server; on a server.", Shape::Any),
];

/// A command by its name, in any case.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.eq_ignore_ascii_case(name))
}

/// What a command answers.
pub fn shape(name: &str) -> Shape {
    find(name).map_or(Shape::Any, |command| command.shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_is_named_once_in_capitals_and_explained() {
        let names: BTreeSet<&str> = COMMANDS.iter().map(|command| command.name).collect();
        assert_eq!(names.len(), COMMANDS.len());
        for command in &COMMANDS {
            assert_eq!(command.name, command.name.to_uppercase());
            assert!(command.does.ends_with('.'), "{}", command.name);
        }
        assert!(find("cell.cas").is_some() && find("CELL").is_none());
    }
}
