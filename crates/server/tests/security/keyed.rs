//! The permission that each command on keyed state needs, and the spaces that a user can access.

use crate::table::Table;
use crate::world::{World, user};
use mainstay::Name;
use mainstay::wire::{self, AdminRequest};
use mainstay_server::resp::table::Group;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Read,
    Write,
    Both,
}

use Needs::{Both, Read, Write};

/// A user with all keys for each combination of permissions, with the commands that it allows.
const USERS: &[(&str, &[&str], &[Needs])] = &[
    ("looker", &["keyed:read"], &[Read]),
    ("filler", &["keyed:write"], &[Write]),
    ("operator", &["keyed"], &[Read, Write, Both]),
    ("other", &["cells", "records", "runs", "outbox", "feed", "branches", "server", "admin"], &[]),
];

/// Every command on keyed state.
const LINES: &[(&str, Needs)] = &[
    ("STATE.CREATE made", Both),
    ("STATE.PUT s a 1 VERSION 5", Both),
    ("STATE.DEL s b VERSION 5", Both),
    ("STATE.APPEND s a 1 item", Both),
    ("STATE.ADVANCE s orders 1", Both),
    ("STATE.SEAL s 1", Both),
    ("STATE.GET s a", Read),
    ("STATE.GET s a REV 1", Read),
    ("STATE.LIST s", Read),
    ("STATE.SCAN s", Read),
    ("STATE.ITEMS s a", Read),
    ("STATE.POSITIONS s", Read),
    ("STATE.WAITING s", Read),
    ("STATE.INFO s", Read),
    ("STATE.SPACES", Read),
    ("STATE.SNAPSHOT s", Read),
    ("STATE.RESTORE s SNAPSHOT", Write),
    ("STATE.DROP none", Write),
];

const TABLE: Table<Needs> =
    Table { users: USERS, lines: LINES, groups: &[Group::Keyed], fill, words };

fn fill(world: &World) {
    for space in ["s", "app:s"] {
        world.db.keyed(space).unwrap().put("a", "1", 1).unwrap();
    }
}

/// Returns the words of a line. The word `SNAPSHOT` is replaced by a snapshot.
fn words(world: &World, line: &str) -> Vec<Vec<u8>> {
    use mainstay::KeyedState;
    let word = |word: &str| match word {
        "SNAPSHOT" => world.db.keyed("s").unwrap().snapshot().unwrap(),
        word => word.as_bytes().to_vec(),
    };
    line.split(' ').map(word).collect()
}

#[test]
fn each_command_needs_its_right_and_no_other_will_do() {
    TABLE.each_needs_its_right();
}

#[test]
fn no_command_on_keyed_state_is_left_out() {
    TABLE.none_is_left_out();
}

#[test]
fn what_stands_inside_a_transaction_needs_the_same() {
    TABLE.each_needs_it_inside_a_transaction();
}

/// `app` has all permissions, but only on keys that begin with `app:`.
#[test]
fn a_user_reaches_the_spaces_of_its_prefix_and_no_others() {
    let world = TABLE.world();
    let mut client = world.client("app");
    for (line, _) in LINES {
        let own = line.replace(" s", " app:s").replace(" made", " app:made");
        let own =
            own.replace(" none", " app:none").replace("STATE.SPACES", "STATE.SPACES PREFIX app:");
        client.send(&words(&world, &own));
        let reply = client.receive();
        assert!(!reply.starts_with('-'), "{own}: {reply}");
        client.send(&words(&world, line));
        let reply = client.receive();
        assert!(reply.starts_with("-NOPERM"), "{line}: {reply}");
    }
    assert_eq!(world.db.keyed("s").unwrap().get("a").unwrap().unwrap().value, b"1");
}

/// Changes of a space are returned only to users who may read the space.
#[test]
fn what_has_changed_needs_the_right_to_read_the_space() {
    let world = TABLE.world();
    let branch = "main".to_owned();
    let space = Name::new("s").unwrap();
    let question = wire::encode(&AdminRequest::StateSince { branch, space, since: None }).unwrap();
    for (who, may) in [("looker", true), ("filler", false), ("other", false), ("app", false)] {
        let mut client = world.client(who);
        client.send(&[b"WIRE.ASK".to_vec(), question.clone()]);
        let reply = client.receive();
        assert_eq!(reply.starts_with("-NOPERM"), !may, "{who}: {reply}");
    }
}

/// Keys of other spaces may look like keys of a space that belongs to the user.
#[test]
fn a_feed_tells_of_the_spaces_of_a_user_and_of_no_key_that_looks_like_one() {
    let world = World::with(|settings| {
        settings.users.push(user("follower", &["feed:read", "keyed"], &["app:", "a/"]));
    });
    for (space, key) in [("app:s", "k"), ("a", "secret"), ("app", "x"), ("a/b", "k")] {
        world.db.keyed(space).unwrap().put(key, "1", 1).unwrap();
    }
    let mut client = world.client("follower");
    let told = client.line("FEED.READ PREFIX app:");
    assert!(told.contains("app:s/k"), "{told}");
    let told = client.line("FEED.READ PREFIX a/");
    assert!(!told.contains("secret"), "{told}");
    assert!(client.line("FEED.READ PREFIX ap").starts_with("-NOPERM"));
}
