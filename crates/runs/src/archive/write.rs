//! Archive writer: writes a run to its file and reads it back.

use super::line::{self, Footer, Header};
use super::name::{self, ArchivedRun};
use super::run_events::{RunDigest, RunEvents};
use super::store::{corrupt_error, file_error};
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
const UPLOAD_BYTES: usize = 256 << 10;

impl Archive {
    /// Writes a run to its file, unless the file exists, and verifies it by reading it back.
    pub(super) async fn write(
        &self,
        view: &RunsAt,
        info: &RunInfo,
    ) -> Result<(ArchivedRun, Contents)> {
        let header = Header::of(&self.0.settings.branch, info)?;
        let digest = RunDigest::of(&header, RunEvents::of(view, &info.run_id))?;
        check_projection(view, info, &digest)?;
        let footer = digest.footer();
        let day = name::day(digest.last_stored.unwrap_or(info.created));
        let folder = name::directory_path(&self.0.settings, Some(&day));
        let path = name::file_path(&folder, &info.run_id, info.last_event_seq, &footer.sha256);
        // A round that crashed after the write left a valid file. An invalid file is written again.
        let contents = match self.compare(view, info, &path, &footer).await {
            Ok(contents) => contents,
            Err(_) => {
                self.upload(view, &header, &footer, &path).await?;
                self.compare(view, info, &path, &footer).await?
            }
        };
        let meta = self.0.store.objects.head(&path).await;
        let size_bytes = meta.map_err(|error| file_error("found", &path, &error))?.size;
        let run_id = info.run_id.clone();
        let path = path.to_string();
        let last_event_seq = info.last_event_seq;
        Ok((ArchivedRun { day, run_id, last_event_seq, path, size_bytes }, contents))
    }

    async fn upload(
        &self,
        view: &RunsAt,
        header: &Header,
        footer: &Footer,
        path: &Path,
    ) -> Result<()> {
        let mut writer = BufWriter::new(self.0.store.objects.clone(), path.clone());
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let result = async {
            compress_line(&mut encoder, &line::encode_line(header)?, path)?;
            for event in RunEvents::of(view, &header.run_id) {
                compress_line(&mut encoder, &line::encode_event(event?)?, path)?;
                if encoder.get_ref().len() >= UPLOAD_BYTES {
                    upload_chunk(&mut writer, std::mem::take(encoder.get_mut()), path).await?;
                }
            }
            compress_line(&mut encoder, &line::encode_line(footer)?, path)?;
            let rest = encoder.finish().map_err(|error| file_error("packed", path, &error))?;
            upload_chunk(&mut writer, rest, path).await
        };
        if let Err(error) = result.await {
            // An aborted upload has no visible name in the store.
            let _ = writer.abort().await;
            return Err(error);
        }
        writer.shutdown().await.map_err(|error| file_error("written", path, &error))
    }

    /// Reads a file back and compares it with the run. Succeeds only if the file is complete and durable.
    async fn compare(
        &self,
        view: &RunsAt,
        info: &RunInfo,
        path: &Path,
        footer: &Footer,
    ) -> Result<Contents> {
        let mut events = RunEvents::of(view, &info.run_id);
        let mut check = |event: CanonicalEvent| {
            let seq = event.run_seq;
            if events.next().transpose()? == Some(event) {
                Ok(())
            } else {
                Err(corrupt_error(path, &format!("event {seq} is not what the database has")))
            }
        };
        let (header, contents) = self.read(path, &mut check).await?;
        let is_same = contents.sha256 == footer.sha256
            && contents.count == footer.count
            && header.metadata()? == info.metadata;
        if !is_same {
            return Err(corrupt_error(path, &"it holds another run than the database"));
        }
        self.0.store.sync(path)?;
        Ok(contents)
    }
}

fn compress_line(encoder: &mut GzEncoder<Vec<u8>>, line: &str, path: &Path) -> Result<()> {
    encoder.write_all(line.as_bytes()).map_err(|error| file_error("packed", path, &error))
}

async fn upload_chunk(writer: &mut BufWriter, chunk: Vec<u8>, path: &Path) -> Result<()> {
    writer.put(chunk.into()).await.map_err(|error| file_error("written", path, &error))
}

/// Rejects a run whose events do not produce the database's snapshot.
fn check_projection(view: &RunsAt, info: &RunInfo, digest: &RunDigest) -> Result<()> {
    let stored = view.snapshot(&info.run_id)?.map(|snapshot| snapshot.hash());
    let is_same = stored == Some(digest.snapshot.hash())
        && digest.snapshot.last_event_seq == info.last_event_seq;
    if is_same {
        return Ok(());
    }
    let message = format!(
        "the events of run `{}` do not add up to its snapshot: it is not archived, look at it with the doctor",
        info.run_id
    );
    Err(Error::new(Code::CorruptData, message))
}
