//! File transport: JSON Lines, one message per line.
//!
//! ```text
//!   deliver --> append a line                flush --> fsync, then the messages are acknowledged
//!   open --> truncate a torn last line: it was never acknowledged
//! ```

use super::Transport;
use mainstay::{Answering, Code, Error, Message, Result, Value};
use parking_lot::Mutex;
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size of the pieces in which the file is searched for its last line end.
const READ_BYTES: u64 = 64 << 10;

/// Appends messages to a file, which one process locks at a time. A line is
/// `{"id":1,"payload":…,"run":…,"subject":…,"tries":1,"writtenUs":…}`. A payload that is not UTF-8 is written
/// as `{"$bytes":"<base64>"}`.
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
    log: Arc<Mutex<LogFile>>,
}

struct LogFile {
    path: PathBuf,
    file: File,
    /// The end of the last complete line.
    end: u64,
    /// True if a torn line may follow the last complete one.
    is_torn: bool,
}

impl FileTransport {
    /// Opens or creates a file. A torn line left by a crash is truncated.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<FileTransport>> {
        let path = path.as_ref().to_owned();
        let log = open_file(&path).map_err(|error| file_error("opened", &path, &error))?;
        let name = format!("file {}", path.display());
        Ok(Arc::new(FileTransport { name, log: Arc::new(Mutex::new(log)) }))
    }
}

impl Transport for FileTransport {
    fn name(&self) -> &str {
        &self.name
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()> {
        Box::pin(async move { self.log.lock().write(&encode_line(message)) })
    }

    fn flush(&self) -> Answering<'_, ()> {
        let log = self.log.clone();
        let sync = move || log.lock().sync();
        Box::pin(async move { super::run_blocking(sync).await })
    }
}

impl LogFile {
    fn write(&mut self, line: &[u8]) -> Result<()> {
        self.truncate_torn().map_err(|error| file_error("mended", &self.path, &error))?;
        self.is_torn = true;
        self.file.write_all(line).map_err(|error| file_error("written", &self.path, &error))?;
        self.end += line.len() as u64;
        self.is_torn = false;
        Ok(())
    }

    /// Truncates the rest of a failed write.
    fn truncate_torn(&mut self) -> std::io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.end)?;
            self.file.seek(SeekFrom::Start(self.end))?;
            self.is_torn = false;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| file_error("synced", &self.path, &error))
    }
}

fn encode_line(message: &Message) -> Vec<u8> {
    // A UTF-8 payload becomes a JSON string, any other one tagged base64.
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

fn open_file(path: &Path) -> std::io::Result<LogFile> {
    let mut file =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    // Two processes would overwrite each other's lines.
    file.try_lock()?;
    let end = end_of_lines(&mut file)?;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.sync_all()?;
    // Make the file's name durable too.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(LogFile { path: path.to_owned(), file, end, is_torn: false })
}

/// Finds the end of the last complete line.
fn end_of_lines(file: &mut File) -> std::io::Result<u64> {
    let mut upto = file.seek(SeekFrom::End(0))?;
    while upto > 0 {
        let from = upto.saturating_sub(READ_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut buffer = Vec::new();
        Read::by_ref(file).take(upto - from).read_to_end(&mut buffer)?;
        if let Some(index) = buffer.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + index as u64 + 1);
        }
        upto = from;
    }
    Ok(0)
}

#[cold]
fn file_error(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("file {} could not be {what}: {error}", path.display()))
}
