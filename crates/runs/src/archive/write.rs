//! Archive writer: writes a run to its file and reads it back.

use super::events::{Events, Sum};
use super::line::{self, Foot, Head};
use super::name::{self, ArchivedRun};
use super::store::{damaged, failed};
use super::{Archive, Contents};
use flate2::Compression;
use flate2::write::GzEncoder;
use mainstay::{CanonicalEvent, Code, Error, Result, RunInfo, RunsAt};
use object_store::ObjectStoreExt;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use std::io::Write;
use tokio::io::AsyncWriteExt;

/// The compressed bytes that are buffered before an upload.
const PIECE_BYTES: usize = 256 << 10;

impl Archive {
    /// Writes a run to its file, unless the file exists, and verifies it by reading it back.
    pub(super) async fn write(
        &self,
        view: &RunsAt,
        info: &RunInfo,
    ) -> Result<(ArchivedRun, Contents)> {
        let head = Head::of(&self.0.settings.branch, info)?;
        let sum = Sum::of(&head, Events::of(view, &info.run_id))?;
        check_projection(view, info, &sum)?;
        let foot = sum.foot();
        let day = name::day(sum.last_stored.unwrap_or(info.created));
        let folder = name::folder(&self.0.settings, Some(&day));
        let path = name::file(&folder, &info.run_id, info.last_event_seq, &foot.sha256);
        // A round that crashed after the write left a valid file. An invalid file is written again.
        let contents = match self.compare(view, info, &path, &foot).await {
            Ok(contents) => contents,
            Err(_) => {
                self.upload(view, &head, &foot, &path).await?;
                self.compare(view, info, &path, &foot).await?
            }
        };
        let meta = self.0.store.objects.head(&path).await;
        let size_bytes = meta.map_err(|error| failed("found", &path, &error))?.size;
        let run_id = info.run_id.clone();
        let path = path.to_string();
        let last_event_seq = info.last_event_seq;
        Ok((ArchivedRun { day, run_id, last_event_seq, path, size_bytes }, contents))
    }

    async fn upload(&self, view: &RunsAt, head: &Head, foot: &Foot, path: &Path) -> Result<()> {
        let mut writer = BufWriter::new(self.0.store.objects.clone(), path.clone());
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        let written = async {
            pack(&mut packer, &line::plain(head)?, path)?;
            for event in Events::of(view, &head.run_id) {
                pack(&mut packer, &line::event(event?)?, path)?;
                if packer.get_ref().len() >= PIECE_BYTES {
                    put(&mut writer, std::mem::take(packer.get_mut()), path).await?;
                }
            }
            pack(&mut packer, &line::plain(foot)?, path)?;
            let rest = packer.finish().map_err(|error| failed("packed", path, &error))?;
            put(&mut writer, rest, path).await
        };
        if let Err(error) = written.await {
            // An aborted upload has no visible name in the store.
            let _ = writer.abort().await;
            return Err(error);
        }
        writer.shutdown().await.map_err(|error| failed("written", path, &error))
    }

    /// Reads a file back and compares it with the run. Succeeds only if the file is complete and durable.
    async fn compare(
        &self,
        view: &RunsAt,
        info: &RunInfo,
        path: &Path,
        foot: &Foot,
    ) -> Result<Contents> {
        let mut events = Events::of(view, &info.run_id);
        let mut check = |event: CanonicalEvent| {
            let seq = event.run_seq;
            if events.next().transpose()? == Some(event) {
                Ok(())
            } else {
                Err(damaged(path, &format!("event {seq} is not what the database has")))
            }
        };
        let (head, contents) = self.read(path, &mut check).await?;
        let is_same = contents.sha256 == foot.sha256
            && contents.count == foot.count
            && head.metadata()? == info.metadata;
        if !is_same {
            return Err(damaged(path, &"it holds another run than the database"));
        }
        self.0.store.settle(path)?;
        Ok(contents)
    }
}

fn pack(packer: &mut GzEncoder<Vec<u8>>, line: &str, path: &Path) -> Result<()> {
    packer.write_all(line.as_bytes()).map_err(|error| failed("packed", path, &error))
}

async fn put(writer: &mut BufWriter, piece: Vec<u8>, path: &Path) -> Result<()> {
    writer.put(piece.into()).await.map_err(|error| failed("written", path, &error))
}

/// Rejects a run whose events do not produce the database's snapshot.
fn check_projection(view: &RunsAt, info: &RunInfo, sum: &Sum) -> Result<()> {
    let kept = view.snapshot(&info.run_id)?.map(|snapshot| snapshot.hash());
    let same =
        kept == Some(sum.snapshot.hash()) && sum.snapshot.last_event_seq == info.last_event_seq;
    if same {
        return Ok(());
    }
    let message = format!(
        "the events of run `{}` do not add up to its snapshot: it is not archived, look at it with the doctor",
        info.run_id
    );
    Err(Error::new(Code::CorruptData, message))
}
