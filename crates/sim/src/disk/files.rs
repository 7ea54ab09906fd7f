//! The log's file interface on a simulated disk, in the same process: without kernel, threads or a mount.

use super::event::{Ino, Kind, ROOT};
use super::fault::Action;
use super::volume::Volume;
use mainstay::{File, Files};
use std::io;
use std::sync::Arc;

/// The files of a log, in the root directory of a disk.
///
/// ```
/// use mainstay::Options;
/// use mainstay_sim::disk::{LogFiles, Volume};
/// use std::sync::Arc;
/// let volume = Volume::default();
/// let db = Options::new().background(false).files(Arc::new(LogFiles::on(&volume))).memory()?;
/// db.cells().set("a", 1)?;
/// assert!(!volume.tape().is_empty());
/// volume.faults().cut_power_now();
/// assert!(db.cells().set("a", 2).is_err());
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct LogFiles(Volume);

impl LogFiles {
    /// The log files of this disk.
    pub fn on(volume: &Volume) -> LogFiles {
        LogFiles(volume.clone())
    }

    fn file(&self, ino: Ino) -> Arc<dyn File> {
        Arc::new(LogFile { volume: self.0.clone(), ino })
    }
}

impl Files for LogFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.0.make(ROOT, name, Kind::File)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.0.find(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.names()?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(self.0.remove(ROOT, name)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(self.0.rename((ROOT, from.to_owned()), (ROOT, to.to_owned()))?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(self.0.sync(Action::SyncDir, ROOT)?)
    }
}

struct LogFile {
    volume: Volume,
    ino: Ino,
}

impl File for LogFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.volume.write(self.ino, offset + done as u64, &bytes[done..])?;
        }
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.volume.read(self.ino, offset, buf.len())?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(self.volume.sync(Action::Sync, self.ino)?)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        Ok(self.volume.reserve(self.ino, len)?)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        Ok(self.volume.resize(self.ino, len)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.volume.len(self.ino)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Fault, Model, Platter, Tree};
    use mainstay::{Code, Database, Durability, Options};
    use mainstay_conformance::random::Random;

    /// Opens a database whose log is on the simulated disk, and whose index is in a directory.
    fn open(volume: &Volume, directory: &std::path::Path) -> mainstay::Result<Database> {
        let options = Options::new().background(false).segment_bytes(8 << 10);
        options.files(Arc::new(LogFiles::on(volume))).open(directory)
    }

    /// The disk after a power cut.
    fn cut(volume: &Volume, before: &Tree, model: Model, seed: u64) -> Volume {
        volume.faults().cut_power_now();
        let mut platter = Platter::of(before);
        volume.tape().take().iter().for_each(|event| platter.apply(event));
        Volume::new(Tree::of(&platter.cut(model, &mut Random::of(&[seed]))))
    }

    #[test]
    fn what_was_acknowledged_is_there_after_a_cut_at_any_operation() {
        for n in (0..120).step_by(3) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("db");
            let mut volume = Volume::default();
            let mut kept = 0;
            let mut before = Tree::default();
            volume.faults().cut_power(n);
            for round in 0..3 {
                let Ok(db) = open(&volume, &path) else {
                    assert!(!volume.faults().has_power());
                    volume = cut(&volume, &before, Model::ALL[n as usize % 6], n);
                    before = volume.tree().clone();
                    continue;
                };
                let found = db.cells().get("n").unwrap().and_then(|n| n.as_i64()).unwrap_or(0);
                assert!((kept..=kept + 1).contains(&found), "{n} {round}: {found} of {kept}");
                kept = found;
                while kept < 40 * (round + 1) && db.cells().incr("n", 1).is_ok() {
                    kept += 1;
                }
                let power = volume.faults().has_power();
                volume = cut(&volume, &before, Model::ALL[n as usize % 6], n);
                before = volume.tree().clone();
                assert!(kept == 40 * (round + 1) || !power);
                volume.faults().cut_power(n / 2);
            }
        }
    }

    #[test]
    fn power_is_gone_for_good() {
        let volume = Volume::default();
        let files = LogFiles::on(&volume);
        volume.faults().cut_power(2);
        let file = files.create("a").unwrap();
        file.write_at(b"one", 0).unwrap();
        assert!(file.write_at(b"two", 3).is_err(), "power fails here");
        for refused in [file.sync(), files.sync_dir(), files.remove("a"), file.truncate(0)] {
            assert!(refused.is_err());
        }
        assert!(files.list().is_err() && files.open("a").is_err() && files.create("b").is_err());
        let mut platter = Platter::default();
        volume.tape().take().iter().for_each(|event| platter.apply(event));
        let image = |model| platter.cut(model, &mut Random::of(&[1]));
        let kept = image(Model::Everything);
        assert_eq!(kept.files().next().unwrap().1, b"onetwo", "it may have arrived");
        assert_eq!(image(Model::Nothing).files().count(), 0);
    }

    /// Data dropped by a failed sync stays readable while power is on. Opening must not treat it as durable
    /// before writing it again.
    #[test]
    fn opening_after_a_failed_sync_may_be_cut_off_anywhere() {
        let loose = |volume: &Volume, path: &std::path::Path| {
            let options = Options::new().background(false).durability(Durability::Memory);
            let options = options.write_buffer_bytes(64 << 10).segment_bytes(256 << 10);
            options.files(Arc::new(LogFiles::on(volume))).open(path)
        };
        for n in 0..40 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("db");
            let volume = Volume::default();
            let db = loose(&volume, &path).unwrap();
            db.cells().set("kept", 1).unwrap();
            db.sync().unwrap();
            for k in 0..14 {
                db.cells().set(&format!("loose/{k}"), vec![7_u8; 2 << 10]).unwrap();
            }
            volume.faults().plan(Action::Sync, 0, 1, Fault::Half);
            db.sync().unwrap_err();
            drop(db);
            volume.faults().clear_plan();
            volume.faults().cut_power(n);
            let reached = loose(&volume, &path).map(|db| db.revision());
            let left = cut(&volume, &Tree::default(), Model::Nothing, n);
            let db = loose(&left, &path).unwrap_or_else(|error| panic!("{n}: {error}"));
            assert_eq!(db.cells().get("kept").unwrap(), Some(1.into()));
            assert!(reached.is_err() || reached == Ok(db.revision()), "{n}: {reached:?}");
        }
    }

    #[test]
    fn a_full_disk_has_room_again_and_a_failed_sync_is_for_good() {
        let directory = tempfile::tempdir().unwrap();
        let volume = Volume::default();
        let db = open(&volume, &directory.path().join("db")).unwrap();
        db.cells().set("a", 1).unwrap();
        volume.faults().plan(Action::Write, 0, u64::MAX, Fault::Full);
        assert_eq!(db.cells().set("a", 2).unwrap_err().code(), Code::DiskFull);
        volume.faults().clear_plan();
        db.cells().set("a", 3).unwrap();
        volume.faults().plan(Action::Sync, 0, 1, Fault::Half);
        assert!(db.cells().set("a", 4).is_err());
        assert_eq!(db.cells().set("a", 5).unwrap_err().code(), Code::SyncFailed);
        assert_eq!(db.cells().get("a").unwrap(), Some(3.into()));
    }
}
