//! Tests of the changes that each power failure model keeps and loses.

use super::*;
use mainstay_conformance::random::Random;
use std::path::Path;

fn make(parent: Ino, name: &str, ino: Ino, kind: Kind) -> Event {
    Event::Make { parent, name: name.to_owned(), ino, kind }
}

fn file(name: &str, ino: Ino) -> Event {
    make(ROOT, name, ino, Kind::File)
}

fn write(ino: Ino, offset: u64, bytes: &[u8]) -> Event {
    Event::Write { ino, offset, bytes: bytes.to_vec() }
}

fn sync(ino: Ino) -> Event {
    Event::Sync { ino }
}

fn rename(from: &str, to: &str) -> Event {
    Event::Rename { from: (ROOT, from.to_owned()), to: (ROOT, to.to_owned()) }
}

fn platter(events: &[Event]) -> Platter {
    let mut platter = Platter::default();
    events.iter().for_each(|event| platter.apply(event));
    platter
}

/// The files after a cut, for many seeds.
fn cuts(events: &[Event], model: Model) -> Vec<Image> {
    let platter = platter(events);
    (0..200).map(|seed| platter.cut(model, &mut Random::of(&[seed]))).collect()
}

fn bytes<'a>(image: &'a Image, name: &str) -> Option<&'a [u8]> {
    image.files().find(|(path, _)| *path == Path::new(name)).map(|(_, bytes)| bytes.as_slice())
}

/// A file whose content and name are synced survives under every model.
#[test]
fn what_is_synced_is_there() {
    let events = [file("a", 2), write(2, 0, b"abc"), sync(2), sync(ROOT)];
    for model in Model::ALL {
        assert!(cuts(&events, model).iter().all(|image| bytes(image, "a") == Some(b"abc")));
    }
}

#[test]
fn a_synced_file_without_a_synced_name_may_be_gone() {
    let events = [file("a", 2), write(2, 0, b"abc"), sync(2)];
    assert!(cuts(&events, Model::Nothing).iter().all(|image| bytes(image, "a").is_none()));
    let some = cuts(&events, Model::Some);
    assert!(some.iter().any(|image| bytes(image, "a").is_none()));
    assert!(some.iter().any(|image| bytes(image, "a") == Some(b"abc")));
    // On ext4, a sync of any file makes all earlier names durable.
    assert!(cuts(&events, Model::Ordered).iter().all(|image| bytes(image, "a") == Some(b"abc")));
}

#[test]
fn a_synced_name_does_not_bring_what_is_in_the_file() {
    let events = [file("a", 2), write(2, 0, b"abc"), sync(ROOT)];
    assert!(cuts(&events, Model::Nothing).iter().all(|image| bytes(image, "a") == Some(b"")));
    let everything = cuts(&events, Model::Everything);
    assert!(everything.iter().all(|image| bytes(image, "a") == Some(b"abc")));
}

#[test]
fn a_renaming_is_there_as_a_whole_or_not_at_all() {
    let events = [
        file("old", 2),
        write(2, 0, b"1"),
        sync(2),
        sync(ROOT),
        file("next", 3),
        write(3, 0, b"2"),
        sync(3),
        rename("next", "old"),
    ];
    for model in Model::ALL {
        for image in cuts(&events, model) {
            let there = bytes(&image, "old");
            assert!(there == Some(b"1") || there == Some(b"2"), "{model}: {there:?}");
        }
    }
    let some = cuts(&events, Model::Some);
    assert!(some.iter().any(|image| bytes(image, "old") == Some(b"1")));
    assert!(some.iter().any(|image| bytes(image, "old") == Some(b"2")));
}

#[test]
fn writes_are_torn_at_sectors_and_nowhere_else() {
    let events =
        [file("a", 2), write(2, 0, &[1; 8192]), sync(2), sync(ROOT), write(2, 100, &[2; 8000])];
    for (model, sector) in [(Model::Torn512, 512), (Model::Torn4096, 4096)] {
        let mut torn = 0;
        for image in cuts(&events, model) {
            let there = bytes(&image, "a").unwrap();
            assert_eq!(there.len(), 8192);
            for piece in there[sector..8192 - sector].chunks(sector) {
                assert!(piece.iter().all(|byte| *byte == piece[0]), "{model}");
            }
            torn += u32::from(there.contains(&2) && there[512..7680].contains(&1));
        }
        assert!(torn > 20, "{model}: {torn}");
    }
    for image in cuts(&events, Model::Some) {
        let there = bytes(&image, "a").unwrap();
        assert!(!there.contains(&2) || there[100..8100].iter().all(|byte| *byte == 2));
    }
}

#[test]
fn names_arrive_in_order_on_an_ext4() {
    let events = [file("a", 2), file("b", 3), file("c", 4)];
    for image in cuts(&events, Model::Ordered) {
        let there: Vec<bool> = ["a", "b", "c"].map(|name| bytes(&image, name).is_some()).into();
        assert!(there.is_sorted_by(|before, after| before >= after), "{there:?}");
    }
    let some = cuts(&events, Model::Some);
    assert!(some.iter().any(|image| bytes(image, "a").is_none() && bytes(image, "c").is_some()));
}

/// As on Linux: pages that a failed sync should have written count as clean, and no later sync writes them.
#[test]
fn what_a_failed_sync_has_dropped_is_read_and_never_written() {
    let mut events = vec![
        file("a", 2),
        write(2, 0, &[1; 8192]),
        sync(2),
        sync(ROOT),
        write(2, 0, &[2; 10]),
        Event::Dropped { ino: 2 },
        write(2, 5000, &[3; 10]),
        sync(2),
    ];
    let left = &cuts(&events, Model::Nothing)[0];
    let there = bytes(left, "a").unwrap();
    assert_eq!((there[0], there[5000]), (1, 3), "the second page was written, the first was not");
    let mut tree = Tree::default();
    events.iter().for_each(|event| tree.apply(event));
    assert_eq!(tree.bytes(2).unwrap()[0], 2, "who reads it finds it");
    // Another write to the page brings all of it to the disk.
    events.extend([write(2, 100, &[4; 1]), sync(2)]);
    let left = &cuts(&events, Model::Nothing)[0];
    let there = bytes(left, "a").unwrap();
    assert_eq!((there[0], there[100]), (2, 4));
}

#[test]
fn files_can_be_taken_out_of_a_tree_and_put_in_again() {
    let events = [
        make(ROOT, "d", 2, Kind::Directory),
        make(2, "a", 3, Kind::File),
        write(3, 2, b"x"),
        Event::Resize { ino: 3, len: 5 },
        file("b", 4),
        Event::Remove { parent: ROOT, name: "b".to_owned() },
    ];
    let mut tree = Tree::default();
    events.iter().for_each(|event| tree.apply(event));
    let image = tree.image();
    assert_eq!(image.files().count(), 1);
    assert_eq!(bytes(&image, "d/a"), Some(&b"\0\0x\0\0"[..]));
    assert_eq!(Tree::of(&image).image(), image);
}

/// Operations of programs on the mounted disk are recorded in order, with syncs. Failed operations are not.
#[test]
fn a_mount_writes_down_what_is_done_and_fails_as_planned() {
    use std::fs::{self, File};
    use std::io::Write;
    let homes = Homes::make().unwrap();
    let mount = Mount::new(Tree::default(), &homes.mounted).unwrap();
    let path = mount.directory().join("a");
    let mut made = File::create(&path).unwrap();
    made.write_all(b"abc").unwrap();
    made.sync_all().unwrap();
    fs::rename(&path, mount.directory().join("b")).unwrap();
    File::open(mount.directory()).unwrap().sync_all().unwrap();
    let events = mount.tape().take();
    let expected = [file("a", 2), write(2, 0, b"abc"), sync(2), rename("a", "b"), sync(ROOT)];
    assert_eq!(events, expected);

    mount.faults().plan(Action::Write, 1, 1, Fault::Full);
    made.write_all(b"d").unwrap();
    assert_eq!(made.write_all(b"e").unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    made.write_all(b"f").unwrap();
    assert_eq!(mount.faults().clear().as_deref(), Some("Write of b"));
    assert_eq!(fs::read(mount.directory().join("b")).unwrap(), b"abcdf");
    mount.faults().plan(Action::Sync, 0, 1, Fault::Half);
    made.sync_all().unwrap_err();
    made.sync_all().unwrap();
    let events = mount.tape().take();
    assert_eq!(events, [write(2, 3, b"d"), write(2, 4, b"f"), Event::Dropped { ino: 2 }, sync(2)]);
    drop(made);
    mount.end().unwrap();
}
