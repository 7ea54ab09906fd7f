//! A transport to a file: JSON Lines, one message a line.
//!
//! ```text
//!   deliver --> a line at the end            settle --> sync, then the messages are acknowledged
//!   open --> what stands behind the last end of a line is cut off: it was never acknowledged
//! ```

use super::Transport;
use mainstay::{Answering, Code, Error, Message, Result, Value};
use parking_lot::Mutex;
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much of the file is looked at together for its last line.
const PIECE_BYTES: u64 = 64 << 10;

/// Appends messages to a file, which one process has at a time. A line is
/// `{"id":1,"payload":…,"run":…,"subject":…,"tries":1,"writtenUs":…}`; a payload that is no text stands there as
/// `{"$bytes":"<base64>"}`.
///
/// ```
/// use mainstay::Database;
/// use mainstay_runs::relay::{FileTransport, Relay, RelaySettings};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("messages.jsonl");
/// let db = Database::memory()?;
/// db.outbox().put("orders.done", "order-7", None)?;
/// let relay = Relay::new(&db, FileTransport::open(&path)?, RelaySettings::default())?;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// relay.round().await
/// # })?;
/// assert!(std::fs::read_to_string(&path).unwrap().contains(r#""payload":"order-7""#));
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct FileTransport {
    name: String,
    inside: Arc<Mutex<Inside>>,
}

struct Inside {
    path: PathBuf,
    file: File,
    /// Where the last whole line ends.
    end: u64,
    /// A line may stand half behind that.
    is_torn: bool,
}

impl FileTransport {
    /// Opens or makes a file. A line that a crash left half is cut off.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<FileTransport>> {
        let path = path.as_ref().to_owned();
        let inside = open(&path).map_err(|error| failed("opened", &path, &error))?;
        let name = format!("file {}", path.display());
        Ok(Arc::new(FileTransport { name, inside: Arc::new(Mutex::new(inside)) }))
    }
}

impl Transport for FileTransport {
    fn name(&self) -> &str {
        &self.name
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()> {
        Box::pin(async move { self.inside.lock().write(&line(message)) })
    }

    fn settle(&self) -> Answering<'_, ()> {
        let inside = self.inside.clone();
        let sync = move || inside.lock().sync();
        Box::pin(async move { super::aside(sync).await })
    }
}

impl Inside {
    fn write(&mut self, line: &[u8]) -> Result<()> {
        self.mend().map_err(|error| failed("mended", &self.path, &error))?;
        self.is_torn = true;
        self.file.write_all(line).map_err(|error| failed("written", &self.path, &error))?;
        (self.end, self.is_torn) = (self.end + line.len() as u64, false);
        Ok(())
    }

    /// Cuts off what a write that failed left.
    fn mend(&mut self) -> std::io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.end)?;
            self.file.seek(SeekFrom::Start(self.end))?;
            self.is_torn = false;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed("synced", &self.path, &error))
    }
}

fn line(message: &Message) -> Vec<u8> {
    // Text as text, everything else as JSON that says so.
    let payload =
        serde_json::from_str::<serde_json::Value>(&Value::from_text(&message.payload).to_json());
    let text = json!({
        "id": message.id,
        "subject": message.subject,
        "run": message.run,
        "tries": message.tries,
        "writtenUs": message.written,
        "payload": payload.unwrap_or_default(),
    });
    format!("{text}\n").into_bytes()
}

fn open(path: &Path) -> std::io::Result<Inside> {
    let mut file =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    file.try_lock()?;
    let end = end_of_lines(&mut file)?;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.sync_all()?;
    // The file's own name stays, too.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(Inside { path: path.to_owned(), file, end, is_torn: false })
}

/// Where the last whole line ends.
fn end_of_lines(file: &mut File) -> std::io::Result<u64> {
    let mut upto = file.seek(SeekFrom::End(0))?;
    while upto > 0 {
        let from = upto.saturating_sub(PIECE_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut piece = Vec::new();
        Read::by_ref(file).take(upto - from).read_to_end(&mut piece)?;
        if let Some(place) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + place as u64 + 1);
        }
        upto = from;
    }
    Ok(0)
}

#[cold]
fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("file {} could not be {what}: {error}", path.display()))
}
