//! Routes that download and upload snapshots of spaces, of any size.
//!
//! ```text
//!   take:     space at one revision --> scratch file --> unlinked --> response, piece by piece
//!   restore:  request, piece by piece --> scratch file --> read into a hidden generation --> made visible
//! ```
//!
//! Only one piece is in memory at a time.

use super::Http;
use super::cells::OnBranch;
use super::extract::{Asked, Named, keyed_of, length_of, point};
use super::job_reads::Moment;
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use super::spaces::no_space;
use super::transfer::{crowded, no_room, no_scratch, ready, receive, scratch, send};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use mainstay::{Code, DiskReserve, Error, KeyedState, Name, SnapshotSummary};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use utoipa::ToSchema;

const ENTRIES: HeaderName = HeaderName::from_static("mainstay-entries");
const HASH: HeaderName = HeaderName::from_static("mainstay-hash");
/// The number of bytes written between two checks of the free disk space.
const ROOM_BYTES: u64 = 4 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// Sends all that a space says as one file, as of one moment. Equal states give equal bytes.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/snapshot", tag = "keyed", operation_id = "snapshot_space",
    params(("space" = String, Path, description = "The space; a slash in it is %2F"), Moment),
    responses(
        (status = 200, description = "The file; the headers Mainstay-Revision, Mainstay-Entries and Mainstay-Hash say what it shows, how many entries it has and the hash that it ends with", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, description = "There is, or was, no such space or branch", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
        (status = 507, description = "Too little of the disk would be free", body = Problem),
    )
)]
pub(crate) async fn take(
    State(app): State<Http>,
    Named(space): Named,
    Asked(moment): Asked<Moment>,
) -> Answered<Response> {
    let space = Name::new(&space)?;
    let at = point(moment.rev, moment.at)?;
    let db = app.db().clone();
    let spare = app.settings().spare();
    let scratch = scratch(&app, 0)?;
    let taken = app.transfer(move || {
        let view = keyed_of(&db, moment.branch.as_deref(), &space)?.at(at)?;
        if view.info()?.is_none() {
            return Err(no_space(&space));
        }
        let path = scratch.path().join("snapshot");
        let summary = {
            let mut out = Sparing::create(&path, spare).map_err(|error| no_scratch(&error))?;
            view.snapshot_to(&mut out).map_err(no_room)?
        };
        let name = "attachment; filename=\"space.mainstay\"";
        Ok((ready(&path, summary.bytes, view.revision(), name)?, summary))
    });
    let (ready, summary) = taken.await?;
    let mut response = send(ready);
    let SnapshotSummary { entries, hash, .. } = summary;
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = HeaderValue::try_from(hash).map_err(|_| Refusal::lost())?;
    response.headers_mut().insert(ENTRIES, HeaderValue::from(entries));
    response.headers_mut().insert(HASH, hash);
    Ok(response)
}

/// A file writer that fails before the disk has too little free space.
struct Sparing {
    file: BufWriter<File>,
    spare: DiskReserve,
    fitting_bytes: u64,
}

impl Sparing {
    fn create(path: &Path, spare: DiskReserve) -> io::Result<Sparing> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        Ok(Sparing { file, spare, fitting_bytes: 0 })
    }
}

impl Write for Sparing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let more_bytes = bytes.len() as u64;
        if more_bytes > self.fitting_bytes {
            self.spare.check(self.file.get_ref(), ROOM_BYTES + more_bytes)?;
            self.fitting_bytes = ROOM_BYTES + more_bytes;
        }
        let written = self.file.write(bytes)?;
        self.fitting_bytes = self.fitting_bytes.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What was restored.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Restored {
    /// How many entries the snapshot had.
    entries: u64,
}

/// Replaces a space by what a snapshot says: all of it, or, if it is damaged, nothing.
#[utoipa::path(
    put, path = "/v1/spaces/{space}/snapshot", tag = "keyed", operation_id = "restore_space",
    params(("space" = String, Path, description = "The space; a slash in it is %2F"), OnBranch),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "What a snapshot gave"),
    responses(
        (status = 200, description = "It is as the snapshot says", body = Restored),
        (status = 400, description = "The snapshot is damaged or none; nothing was changed", body = Problem),
        (status = 409, description = "Another restore has taken its place", body = Problem),
        (status = 507, description = "Too little of the disk would be free", body = Problem),
    )
)]
pub(crate) async fn restore(
    State(app): State<Http>,
    Named(space): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Restored>> {
    let space = Name::new(&space)?;
    let limit_bytes = app.settings().import_limit_bytes;
    let length_bytes = length_of(&headers).map_or(0, |length| length as u64);
    if length_bytes > limit_bytes {
        return Err(Refusal::too_large(limit_bytes));
    }
    let _seat = app.imports().try_acquire_owned().map_err(|_| crowded())?;
    let scratch = scratch(&app, length_bytes)?;
    let path = scratch.path().join("snapshot");
    let received = receive(body, &path, limit_bytes, app.settings().spare());
    let received = tokio::time::timeout(app.settings().import_limit(), received).await;
    received.map_err(|_| Refusal::too_slow_file())??;
    let db = app.db().clone();
    let restored = app.transfer(move || {
        let file = File::open(&path).map_err(|error| no_scratch(&error))?;
        let keyed = keyed_of(&db, place.branch.as_deref(), &space)?;
        let entries = keyed.restore_from(&mut BufReader::with_capacity(BUFFER_BYTES, file));
        // The scratch file must exist until it has been read.
        drop(scratch);
        Ok(Restored { entries: entries.map_err(of_upload)? })
    });
    Ok(Json::of(restored.await?))
}

/// Maps corrupt data to a client error, because the upload is damaged and not the database.
fn of_upload(error: Error) -> Refusal {
    match error.code() {
        Code::CorruptData => Refusal::invalid(format!("{}; nothing was changed", error.message())),
        _ => error.into(),
    }
}
