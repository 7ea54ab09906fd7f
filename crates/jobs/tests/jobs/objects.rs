use crate::world::{World, code, job, name};
use mainstay::{Code, Fields};
use mainstay_jobs::{Jobs, ServedBranches, Settings, field};
use object_store::memory::InMemory;
use std::sync::Arc;

#[test]
fn large_input_and_output_go_by_reference() {
    let world = World::new();
    let directory = tempfile::tempdir().unwrap();
    let local = object_store::local::LocalFileSystem::new_with_prefix(directory.path()).unwrap();
    let small = vec![1; 64 << 10];
    let large = vec![2; (64 << 10) + 1];
    let stores: [(&str, Arc<dyn object_store::ObjectStore>); 2] =
        [("memory", Arc::new(InMemory::new())), ("local:#1", Arc::new(local))];
    for (id, store) in stores {
        let jobs = Jobs::open_with(&world.db, Settings::default(), store).unwrap();
        jobs.submit(&job(id).params(large.clone())).unwrap();
        let claimed = jobs.claim("t", "w", None).unwrap().unwrap();
        assert_eq!(claimed.job.fields.get(field::PARAMS), None);
        assert_eq!(jobs.params(&claimed.job).unwrap().as_ref(), Some(&large));
        jobs.complete(&claimed.grant, Some(&large)).unwrap();
        let done = jobs.get(&name(id)).unwrap().unwrap();
        assert!(done.fields.get(field::RESULT_REF).is_some());
        assert_eq!(jobs.result(&done).unwrap().as_ref(), Some(&large));
        let id = format!("small{id}");
        jobs.submit(&job(&id).params(small.clone())).unwrap();
        let claimed = jobs.claim("t", "w", None).unwrap().unwrap();
        assert_eq!(claimed.job.fields.get(field::PARAMS_REF), None);
        assert_eq!(jobs.params(&claimed.job).unwrap().as_ref(), Some(&small));
    }
    assert_eq!(code(world.jobs.submit(&job("x").params(large))), Code::ValueTooLarge);
}

#[test]
fn a_refused_submission_leaves_the_input_of_the_job_that_is_there() {
    let world = World::new();
    let store = Arc::new(InMemory::new());
    let jobs = Jobs::open_with(&world.db, Settings::default(), store.clone()).unwrap();
    let first = vec![1; 70_000];
    let second = vec![2; 70_000];
    jobs.submit(&job("a").params(first.clone())).unwrap();
    assert_eq!(code(jobs.submit(&job("a").params(second))), Code::JobExists);
    let stored = jobs.get(&name("a")).unwrap().unwrap();
    assert_eq!(jobs.params(&stored).unwrap(), Some(first));
    let mine = &jobs;
    let theirs = jobs.key(&name("a"));
    let refer = |path: &str| {
        let other = Fields::of([(field::PARAMS_REF, path)]).unwrap();
        world.db.records().put(&theirs, &other, None).unwrap();
        code(mine.params(&mine.get(&name("a")).unwrap().unwrap()))
    };
    assert_eq!(refer("mainstay./t/a/params/none"), Code::Io, "it is not there");
    let path = object_store::path::Path::from("mainstay./t/a/params/0123");
    let put = object_store::ObjectStoreExt::put(&*store, &path, "changed".into());
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(put).unwrap();
    assert_eq!(refer("mainstay./t/a/params/0123"), Code::CorruptData, "it is not what was written");
}

/// A user who may write the records of one job type can also write their references.
#[test]
fn a_job_reads_its_own_objects_and_no_others() {
    let world = World::new();
    let directory = tempfile::tempdir().unwrap();
    let local = object_store::local::LocalFileSystem::new_with_prefix(directory.path()).unwrap();
    let jobs = Jobs::open_with(&world.db, Settings::default(), Arc::new(local)).unwrap();
    jobs.submit(&job("victim").params(vec![7; 70_000])).unwrap();
    jobs.submit(&job("thief")).unwrap();
    let reference = |id: &str| {
        let job = jobs.get(&name(id)).unwrap().unwrap();
        job.fields.text(field::PARAMS_REF).unwrap().to_owned()
    };
    let path = reference("victim");
    let hash = path.rsplit('/').next().unwrap();
    let key = jobs.key(&name("thief"));
    let dots = path.replacen("victim", "thief/../victim", 1);
    for foreign in
        [path.as_str(), &dots, &format!("/{path}"), "mainstay./t/victim", "", "t/thief/params/0"]
    {
        world.db.records().set_field(&key, field::PARAMS_REF, foreign).unwrap();
        world.db.records().set_field(&key, field::RESULT_REF, foreign).unwrap();
        let thief = jobs.get(&name("thief")).unwrap().unwrap();
        for read in [jobs.params(&thief), jobs.result(&thief)] {
            let error = read.expect_err(foreign);
            assert_eq!(error.code(), Code::CorruptData, "{foreign}: {error}");
            assert!(error.message().contains("thief"), "{error}");
            for secret in ["victim", hash] {
                assert!(!error.message().contains(secret), "{error}");
            }
        }
    }
    // An object of its own that does not exist: the error must not reveal a path of the server.
    world.db.records().set_field(&key, field::PARAMS_REF, "mainstay./t/thief/params/0").unwrap();
    let thief = jobs.get(&name("thief")).unwrap().unwrap();
    let error = jobs.params(&thief).unwrap_err();
    assert_eq!(error.code(), Code::Io, "{error}");
    assert!(!error.message().contains(directory.path().to_str().unwrap()), "{error}");
    // A record that names another job's object neither keeps that object alive nor loses it.
    world.db.records().set_field(&key, field::PARAMS_REF, path.as_str()).unwrap();
    assert_eq!(jobs.collect_garbage(std::time::Duration::ZERO).unwrap().deleted, 0);
    let victim = jobs.get(&name("victim")).unwrap().unwrap();
    assert_eq!(jobs.params(&victim).unwrap(), Some(vec![7; 70_000]));
}

/// Objects of rejected operations are deleted; objects named by any version on any branch are kept.
#[test]
fn tidying_deletes_what_no_record_names() {
    let world = World::new();
    let store = Arc::new(InMemory::new());
    let settings = Settings { serve: ServedBranches::AllBranches, ..Settings::default() };
    let jobs = Jobs::open_with(&world.db, settings, store.clone()).unwrap();
    let bytes = |byte| vec![byte; 70_000];
    jobs.submit(&job("a").params(bytes(1))).unwrap();
    assert_eq!(code(jobs.submit(&job("a").params(bytes(2)))), Code::JobExists);
    world.db.fork("try", "main", mainstay::At::Latest).unwrap();
    let tried = jobs.on_branch("try").unwrap();
    tried.submit(&job("b")).unwrap();
    let grant = tried.claim("t", "w", None).unwrap().unwrap().grant;
    tried.complete(&grant, Some(&bytes(3))).unwrap();
    let other = object_store::path::Path::from("other./t/a/params/0123");
    let put = object_store::ObjectStoreExt::put(&*store, &other, "not ours".into());
    mainstay::remote::wait(put).unwrap();
    let report = jobs.collect_garbage(std::time::Duration::from_secs(3600)).unwrap();
    assert_eq!((report.examined, report.deleted), (0, 0), "they are young");
    let report = jobs.collect_garbage(std::time::Duration::ZERO).unwrap();
    assert_eq!((report.examined, report.deleted), (3, 1));
    let [a, b] = ["a", "b"].map(|id| tried.get(&name(id)).unwrap().unwrap());
    assert_eq!(jobs.params(&a).unwrap(), Some(bytes(1)));
    assert_eq!(jobs.result(&b).unwrap(), Some(bytes(3)));
    assert!(mainstay::remote::wait(object_store::ObjectStoreExt::head(&*store, &other)).is_ok());
    assert_eq!(jobs.collect_garbage(std::time::Duration::ZERO).unwrap().deleted, 0);
}
