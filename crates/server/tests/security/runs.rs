//! The permission that each command on runs and on the outbox needs, and the runs that a user can access.

use crate::table::{Table, as_they_are};
use crate::world::World;
use mainstay::NewEvent;
use mainstay_server::resp::table::Group;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    ReadRuns,
    WriteRuns,
    BothRuns,
    Put,
    Dead,
    Send,
    /// Appending an event with a message.
    Tell,
}

use Needs::{BothRuns, Dead, Put, ReadRuns, Send, Tell, WriteRuns};

/// A user with all keys for each combination of permissions, with the commands that it allows.
const USERS: &[(&str, &[&str], &[Needs])] = &[
    ("follower", &["runs:read"], &[ReadRuns]),
    ("teller", &["runs:write"], &[WriteRuns]),
    ("engine", &["runs"], &[ReadRuns, WriteRuns, BothRuns]),
    ("putter", &["outbox:write"], &[Put]),
    ("looker", &["outbox:read"], &[Dead]),
    ("relay", &["outbox"], &[Put, Dead, Send]),
    ("messenger", &["runs", "outbox:write"], &[ReadRuns, WriteRuns, BothRuns, Put, Tell]),
    ("other", &["cells", "records", "feed", "branches", "server", "admin"], &[]),
];

/// Every command on runs and on the outbox.
const LINES: &[(&str, Needs)] = &[
    ("RUN.APPEND r RunStarted 1 PLAN 1", BothRuns),
    ("RUN.APPEND r RunPaused 1 PLAN 1 MESSAGE s p", Tell),
    (
        "RUN.BATCH r [{\"eventType\":\"T\",\"planVersion\":\"1\",\"message\":{\"subject\":\"s\"}}]",
        Tell,
    ),
    ("RUN.BATCH r []", WriteRuns),
    ("RUN.BATCH r [{\"eventType\":\"E\",\"planVersion\":\"1\"}]", BothRuns),
    ("RUN.BOOTSTRAP made null []", BothRuns),
    ("RUN.FETCH r", ReadRuns),
    ("RUN.FETCH r REV 1", ReadRuns),
    ("RUN.TAIL r", ReadRuns),
    ("RUN.SNAPSHOT r", ReadRuns),
    ("RUN.PROJECT r", ReadRuns),
    ("RUN.KEY r T PLAN 1", ReadRuns),
    ("RUN.INFO r", ReadRuns),
    ("RUN.ALERTS r", ReadRuns),
    ("RUN.REVISION r 1", ReadRuns),
    ("RUN.LIST", ReadRuns),
    ("RUN.DELETE none", WriteRuns),
    ("OUTBOX.PUT s p", Put),
    ("OUTBOX.CLAIM 1 LEASE 1000", Send),
    ("OUTBOX.ACK 9", Send),
    ("OUTBOX.FAIL 9 no", Send),
    ("OUTBOX.DEAD", Dead),
    ("OUTBOX.STATE", Dead),
    ("OUTBOX.REPLAY 9", Send),
];

const TABLE: Table<Needs> = Table {
    users: USERS,
    lines: LINES,
    groups: &[Group::Runs, Group::Outbox],
    fill,
    words: as_they_are,
};

fn fill(world: &World) {
    for run in ["r", "app:r"] {
        world.db.runs().append(NewEvent::new(run, "RunStarted").plan("1").data("1")).unwrap();
    }
}

#[test]
fn each_command_needs_its_right_and_no_other_will_do() {
    TABLE.each_needs_its_right();
}

#[test]
fn no_command_on_runs_or_on_the_outbox_is_left_out() {
    TABLE.none_is_left_out();
}

#[test]
fn what_stands_inside_a_transaction_needs_the_same() {
    TABLE.each_needs_it_inside_a_transaction();
}

/// `app` has all permissions, but only on keys that begin with `app:`.
#[test]
fn a_user_reaches_the_runs_of_its_prefix_and_no_others() {
    let world = TABLE.world();
    let mut client = world.client("app");
    for line in [
        "RUN.APPEND app:r StepStarted 1 STEP a PLAN 1",
        "RUN.APPEND app:r StepStarted 1 STEP b PLAN 1 MESSAGE app:s p",
        "RUN.FETCH app:r",
        "RUN.TAIL app:r",
        "RUN.SNAPSHOT app:r SEQ 1",
        "RUN.REVISION app:r 1",
        "RUN.LIST PREFIX app:",
        "OUTBOX.PUT app:s p RUN app:r",
    ] {
        let reply = client.line(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    for line in [
        "RUN.APPEND r StepStarted 1 STEP a PLAN 1",
        "RUN.APPEND app:r StepStarted 1 STEP c PLAN 1 MESSAGE s p",
        "RUN.BATCH r [{\"eventType\":\"E\",\"planVersion\":\"1\"}]",
        "RUN.BATCH app:r [{\"eventType\":\"E\",\"planVersion\":\"1\",\"runId\":\"r\"}]",
        "RUN.BOOTSTRAP made null []",
        "RUN.FETCH r",
        "RUN.FETCH r REV 1",
        "RUN.TAIL r",
        "RUN.TAIL r WAIT 60000",
        "RUN.SNAPSHOT r",
        "RUN.PROJECT r",
        "RUN.INFO r",
        "RUN.ALERTS r",
        "RUN.REVISION r 1",
        "RUN.LIST",
        "RUN.LIST PREFIX ap",
        "RUN.DELETE r",
        "OUTBOX.PUT s p",
        "OUTBOX.PUT app:s p RUN r",
        "OUTBOX.CLAIM 1 LEASE 1000",
        "OUTBOX.ACK 1",
        "OUTBOX.FAIL 1 no",
        "OUTBOX.DEAD",
        "OUTBOX.STATE",
        "OUTBOX.REPLAY 1",
    ] {
        client.send(&line.split(' ').collect::<Vec<_>>());
        let reply = client.receive();
        let other = line.contains("runId");
        let wanted = if other { "-INVALID" } else { "-NOPERM" };
        assert!(reply.starts_with(wanted), "{line}: {reply}");
    }
    assert_eq!(world.db.runs().fetch("r", 0, 9).unwrap().len(), 1);
}
