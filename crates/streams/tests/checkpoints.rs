//! Checkpoints: each kept one restores exactly, and damaged, foreign or partial ones are refused.

use mainstay::{Code, Database, ErrorKind, Keyed, KeyedState, SpaceOptions, StateWrite};
use mainstay_streams::{CheckpointStore, Checkpoints, Job, MemoryState};
use object_store::memory::InMemory;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn checkpoints(directory: &Path) -> Checkpoints {
    Checkpoints::open(CheckpointStore::directory(directory).unwrap(), Job::new("job", "counts"))
        .unwrap()
}

/// Changes a space in each round: puts, deletions, items, positions.
fn change(space: &Keyed, round: u64) {
    let version = |n: u64| round * 100 + n;
    let mut writes: Vec<StateWrite> = (0..20)
        .map(|n| {
            StateWrite::put(format!("key-{}", (n * 7 + round) % 50), format!("{round}"), version(n))
        })
        .collect();
    writes.push(StateWrite::delete(format!("key-{}", round % 50), version(99)));
    writes.push(StateWrite::append("log", round.to_be_bytes(), "item"));
    writes.push(StateWrite::advance("source/orders", round * 10));
    space.write(writes).unwrap();
    if round.is_multiple_of(4) {
        // Dropped tombstones must be dropped in the checkpoint too.
        space.seal(round * 100).unwrap();
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[test]
fn any_that_is_kept_comes_back_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path()).keep(6).changes(3);
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    let mut snapshots = Vec::new();
    for round in 1..=12 {
        change(&space, round);
        let manifest = checkpoints.create(&space).unwrap();
        assert_eq!(manifest.checkpoint, round);
        assert_eq!(manifest.shards[0].positions["source/orders"], round * 10);
        snapshots.push((round, KeyedState::snapshot(&space).unwrap()));
    }
    assert_eq!(checkpoints.list().unwrap(), [7, 8, 9, 10, 11, 12]);
    let lengths: Vec<usize> =
        (7..=12).map(|id| checkpoints.manifest(id).unwrap().shards[0].files.len()).collect();
    assert_eq!(lengths, [3, 4, 1, 2, 3, 4], "after three of changes comes a full one");
    for (round, snapshot) in snapshots {
        let elsewhere = MemoryState::new();
        match checkpoints.restore(round, 0, &elsewhere) {
            Ok(_) => assert!(elsewhere.snapshot().unwrap() == snapshot, "checkpoint {round}"),
            Err(error) => assert!(round < 7 && error.code() == Code::CheckpointNotFound, "{error}"),
        }
    }
    // Of the removed checkpoints only the files remain that others depend on.
    let needed: usize = 6 + 2;
    let data = files(&directory.path().join("job/data"));
    assert_eq!(data.len(), needed, "{data:?}");
}

#[test]
fn on_a_new_machine_it_goes_on_with_a_full_one() {
    let directory = tempfile::tempdir().unwrap();
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    for round in 1..=3 {
        change(&space, round);
        checkpoints(directory.path()).create(&space).unwrap();
    }
    let snapshot = KeyedState::snapshot(&space).unwrap();
    let again = Database::memory().unwrap().keyed("elsewhere").unwrap();
    // The other database may be ahead of the checkpoint's mark.
    for round in 1..=50 {
        again.put("own", "x", round).unwrap();
    }
    let checkpoints = checkpoints(directory.path());
    checkpoints.restore(3, 0, &again).unwrap();
    assert!(KeyedState::snapshot(&again).unwrap() == snapshot);
    change(&again, 4);
    let manifest = checkpoints.create(&again).unwrap();
    assert!(manifest.shards[0].files.last().unwrap().full, "its mark was of another database");
    change(&again, 5);
    let manifest = checkpoints.create(&again).unwrap();
    assert!(!manifest.shards[0].files.last().unwrap().full);
    checkpoints.verify(5).unwrap();
}

#[test]
fn every_damage_is_found_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path());
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    for round in 1..=2 {
        change(&space, round);
        checkpoints.create(&space).unwrap();
    }
    checkpoints.verify(2).unwrap();
    let other = MemoryState::new();
    other.put(b"own", b"state", 1.into()).unwrap();
    let before = other.snapshot().unwrap();
    for path in files(directory.path()) {
        if path.ends_with("00000000000000000001") {
            continue;
        }
        let whole = std::fs::read(&path).unwrap();
        let mut damages: Vec<Vec<u8>> = vec![whole[..whole.len() / 2].to_vec(), Vec::new()];
        for at in [0, 9, whole.len() / 3, whole.len() / 2, whole.len() - 2] {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            damages.push(flipped);
        }
        for damaged in damages {
            std::fs::write(&path, damaged).unwrap();
            for outcome in
                [checkpoints.verify(2).map(|_| ()), checkpoints.restore(2, 0, &other).map(|_| ())]
            {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{}: {error}", path.display());
            }
            assert!(other.snapshot().unwrap() == before, "{}", path.display());
        }
        std::fs::remove_file(&path).unwrap();
        assert!(checkpoints.restore(2, 0, &other).is_err());
        std::fs::write(&path, whole).unwrap();
    }
    checkpoints.verify(2).unwrap();
}

/// A valid file, but of another checkpoint.
#[test]
fn a_file_of_another_checkpoint_is_found_out() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path()).changes(0);
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    for round in 1..=2 {
        change(&space, round);
        checkpoints.create(&space).unwrap();
    }
    let file = |id: u64| {
        let manifest = checkpoints.manifest(id).unwrap();
        directory.path().join(&manifest.shards[0].files[0].name)
    };
    std::fs::copy(file(1), file(2)).unwrap();
    let other = MemoryState::new();
    let error = checkpoints.restore(2, 0, &other).unwrap_err();
    assert!(error.message().contains("not the one that was written"), "{error}");
    assert_eq!(other.info().unwrap(), None);
}

#[test]
fn what_is_of_another_job_operator_or_number_of_groups_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    change(&space, 1);
    checkpoints(directory.path()).create(&space).unwrap();
    let store = || CheckpointStore::directory(directory.path()).unwrap();
    let refused = |job: Job, word: &str| {
        let checkpoints = Checkpoints::open(store(), job).unwrap();
        let error = checkpoints.restore(1, 0, &MemoryState::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(word), "{error}");
    };
    refused(Job::new("job", "sums"), "operator counts");
    refused(Job { groups: 64, ..Job::new("job", "counts") }, "128");
    // Its path names one job and its content another.
    std::fs::rename(directory.path().join("job"), directory.path().join("stolen")).unwrap();
    refused(Job::new("stolen", "counts"), "job job");
    for name in ["", "../up", ".hidden", "a/b", "a b"] {
        assert!(Checkpoints::open(store(), Job::new(name, "counts")).is_err(), "{name}");
    }
    let of_64 = Database::memory().unwrap().keyed("counts").unwrap();
    of_64.declare(SpaceOptions::default().groups(64)).unwrap();
    let error = checkpoints(directory.path()).create(&of_64).unwrap_err();
    assert!(error.message().contains("64 groups"), "{error}");
}

#[test]
fn one_that_has_no_manifest_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path());
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    change(&space, 1);
    checkpoints.create(&space).unwrap();
    let before = checkpoints.latest().unwrap();
    change(&space, 2);
    let report = checkpoints.write(2, 0, 0..128, &space, before.as_ref()).unwrap();
    assert_eq!(checkpoints.list().unwrap(), [1]);
    assert_eq!(
        checkpoints.restore(2, 0, &MemoryState::new()).unwrap_err().code(),
        Code::CheckpointNotFound
    );
    // A repeated commit, or one with a missing part, creates no checkpoint.
    let again = checkpoints.write(2, 0, 0..128, &space, before.as_ref()).unwrap();
    checkpoints.commit(2, 0, vec![again]).unwrap();
    assert_eq!(files(&directory.path().join("job/data")).len(), 2, "what nobody needs is gone");
    assert_eq!(
        checkpoints.commit(2, 0, vec![report.clone()]).unwrap_err().code(),
        Code::CheckpointExists
    );
    let half = checkpoints.write(3, 0, 0..64, &space, None).unwrap();
    assert_eq!(checkpoints.commit(3, 0, vec![half]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(checkpoints.list().unwrap(), [1, 2]);
}

#[test]
fn a_store_of_objects_does_as_well() {
    let store = CheckpointStore::objects(Arc::new(InMemory::new())).unwrap();
    let checkpoints = Checkpoints::open(store, Job::new("job", "counts")).unwrap().keep(2);
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    for round in 1..=4 {
        change(&space, round);
        checkpoints.create(&space).unwrap();
    }
    assert_eq!(checkpoints.list().unwrap(), [3, 4]);
    checkpoints.verify(3).unwrap();
    let again = MemoryState::new();
    checkpoints.restore(4, 0, &again).unwrap();
    assert!(again.snapshot().unwrap() == KeyedState::snapshot(&space).unwrap());
    let late = checkpoints.write(4, 0, 0..128, &space, None).unwrap_err();
    assert_eq!(late.code(), Code::CheckpointExists);
    checkpoints.verify(4).unwrap();
}

#[test]
fn one_whose_files_are_not_all_there_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path());
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    change(&space, 1);
    let report = checkpoints.write(1, 0, 0..128, &space, None).unwrap();
    let file = directory.path().join(&report.part.files[0].name);
    let whole = std::fs::read(&file).unwrap();
    let refused = || {
        let error = checkpoints.commit(1, 0, vec![report.clone()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains(&report.part.files[0].name), "{error}");
    };
    std::fs::write(&file, &whole[1..]).unwrap();
    refused();
    std::fs::remove_file(&file).unwrap();
    refused();
    assert_eq!(checkpoints.list().unwrap(), Vec::<u64>::new());
    std::fs::write(&file, whole).unwrap();
    checkpoints.commit(1, 0, vec![report]).unwrap();
}

/// A caller that knows only the job's name takes or rescales a checkpoint.
#[test]
fn as_many_are_kept_as_the_job_says_whoever_takes_one() {
    let directory = tempfile::tempdir().unwrap();
    let store = || CheckpointStore::directory(directory.path()).unwrap();
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    change(&space, 1);
    let own = checkpoints(directory.path()).keep(14);
    for _ in 0..14 {
        own.create(&space).unwrap();
    }
    let other = Checkpoints::of_job(store(), "job").unwrap().unwrap();
    other.create(&space).unwrap();
    assert_eq!(other.list().unwrap().len(), 14);
    checkpoints(directory.path()).keep(3).create(&space).unwrap();
    let other = Checkpoints::of_job(store(), "job").unwrap().unwrap();
    other.rescale(2).unwrap();
    // Three checkpoints, of which one is the last of its epoch.
    assert_eq!(other.list().unwrap(), [15, 16, 17]);
}

#[test]
fn what_a_crash_left_half_written_goes_with_later_ones() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path());
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    change(&space, 1);
    checkpoints.create(&space).unwrap();
    let job = directory.path().join("job");
    let old = format!("{:020}-0-0a.part", 1);
    let live = format!("{:020}-0-0b.part", 3);
    let left = [
        job.join("data").join(&old),
        job.join("manifests").join(format!("{:020}.77.part", 1)),
        job.join("data").join(&live),
    ];
    left.iter().for_each(|path| std::fs::write(path, "half of it").unwrap());
    checkpoints.create(&space).unwrap();
    assert_eq!(left.map(|path| path.exists()), [false, false, true], "the last is under way");
}

#[test]
fn a_file_that_is_no_manifest_by_its_name_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path());
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    change(&space, 1);
    checkpoints.create(&space).unwrap();
    let manifests = directory.path().join("job/manifests");
    for name in ["7", "00000000000000000007-1", "00000000000000000007~", "+0000000000000000007"] {
        std::fs::copy(manifests.join(format!("{:020}", 1)), manifests.join(name)).unwrap();
    }
    assert_eq!(checkpoints.list().unwrap(), [1]);
    // One with a wrong number, the highest possible one.
    std::fs::copy(manifests.join(format!("{:020}", 1)), manifests.join(u64::MAX.to_string()))
        .unwrap();
    assert_eq!(checkpoints.latest().unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(checkpoints.next_id().unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn one_whose_manifest_nobody_could_read_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path());
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    change(&space, 1);
    let mut report = checkpoints.write(1, 0, 0..128, &space, None).unwrap();
    let long = "x".repeat(1 << 20);
    report.part.positions.extend((0..65).map(|n| (format!("{n}{long}"), n)));
    let error = checkpoints.commit(1, 0, vec![report]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(checkpoints.list().unwrap(), Vec::<u64>::new());
}
