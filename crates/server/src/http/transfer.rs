//! Routes that export and import a branch, and back up the database.
//!
//! ```text
//!   export, backup:  database --> scratch file, verified --> unlinked --> response, piece by piece
//!   import:          request, piece by piece --> scratch file --> verified and imported --> removed
//!   too little free: 507, and the scratch file is removed
//! ```
//!
//! The files are as large as the data, but only one piece is in memory at a time. The log may be on the same
//! disk, so the files must leave some of it free.

use super::Http;
use super::extract::{Asked, Named, cut, length_of};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use mainstay::{Code, Database, DiskReserve, Error, ImportReport, verify_backup};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;
use utoipa::{IntoParams, ToSchema};

/// The size of the pieces in which a file is sent.
const PIECE_BYTES: usize = 256 << 10;
/// The number of bytes received between two checks of the free disk space.
const ROOM_BYTES: u64 = 4 << 20;
const REVISION: HeaderName = HeaderName::from_static("mainstay-revision");
const CELLS: HeaderName = HeaderName::from_static("mainstay-cells");
const RECORDS: HeaderName = HeaderName::from_static("mainstay-records");
const RUNS: HeaderName = HeaderName::from_static("mainstay-runs");

/// A finished file that is already unlinked. The system deletes it when the last reader closes it.
pub(super) struct Ready {
    file: File,
    bytes: u64,
    revision: u64,
    /// The number of cells, records and runs in the file; `None` for files that do not count them.
    counts: Option<(u64, u64, u64)>,
    name: &'static str,
}

/// Sends a branch as one file: its kept versions, counters and tags.
#[utoipa::path(
    get, path = "/v1/export/{name}", tag = "files", operation_id = "export_branch",
    params(("name" = String, Path, description = "The branch; it may hold slashes")),
    responses(
        (status = 200, description = "The file; the headers Mainstay-Revision, Mainstay-Cells and Mainstay-Records say what it shows and how much it has", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, description = "The branch is absent", body = Problem),
        (status = 507, description = "Too little of the disk would be free", body = Problem),
    )
)]
pub(crate) async fn export(State(app): State<Http>, Named(name): Named) -> Answered<Response> {
    let db = app.db().clone();
    let scratch = scratch(&app, 0)?;
    let spare = app.settings().spare();
    let ready = app.transfer(move || {
        let path = scratch.path().join("export");
        let report =
            db.with_disk_reserve(spare).export(&name, &path, &mut |_| {}).map_err(no_room)?;
        let name = "attachment; filename=\"branch.mainstay\"";
        Ok(Ready {
            counts: Some((report.cells, report.records, report.runs)),
            ..ready(&path, report.bytes, report.revision, name)?
        })
    });
    Ok(send(ready.await?))
}

/// Which backup is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only what was committed after this revision; without it, everything.
    since: Option<u64>,
    /// The id of the database that is meant; another one refuses.
    #[param(example = "9d3f22dd2dbeae4fbecff4d09e8319e2")]
    database: Option<String>,
}

/// Sends a backup as one file, after reading it back and checking all of it.
#[utoipa::path(
    post, path = "/v1/backup", tag = "files", operation_id = "backup", params(Wanted),
    responses(
        (status = 200, description = "The file; the header Mainstay-Revision says what it shows", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 400, description = "The revision is in the future, or another database is meant", body = Problem),
        (status = 410, description = "The log does not reach back so far: take a full backup", body = Problem),
        (status = 507, description = "Too little of the disk would be free", body = Problem),
    )
)]
pub(crate) async fn backup(
    State(app): State<Http>,
    Asked(wanted): Asked<Wanted>,
) -> Answered<Response> {
    let db = app.db().clone();
    let scratch = scratch(&app, 0)?;
    let spare = app.settings().spare();
    let ready = app.transfer(move || {
        check_meant(&db, wanted.database.as_deref())?;
        let path = scratch.path().join("backup");
        let taken = match wanted.since {
            Some(since) => db.with_disk_reserve(spare).backup_since(since, &path, &mut |_| {}),
            None => db.with_disk_reserve(spare).backup(&path, &mut |_| {}),
        };
        taken.map_err(no_room)?;
        let report = verify_backup(&path)?;
        ready(&path, report.bytes, report.revision, "attachment; filename=\"backup.mainstay\"")
    });
    Ok(send(ready.await?))
}

/// Refuses an incremental backup of another database than the client meant.
fn check_meant(db: &Database, meant: Option<&str>) -> Answered<()> {
    let own = db.id()?.to_string();
    match meant {
        Some(meant) if meant != own => Err(Refusal::invalid(format!(
            "this is database {own}, not {meant}: ask the server of that one"
        ))),
        _ => Ok(()),
    }
}

/// What was imported.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Imported {
    /// The new branch.
    name: String,
    /// The branch that was exported.
    source: String,
    /// Versions written.
    versions: u64,
    /// Tags made; a name that is taken gets the branch's name before it.
    tags: u64,
    /// The revision of the last transaction.
    revision: u64,
}

/// Makes a branch out of an exported file: all of it, or nothing.
#[utoipa::path(
    post, path = "/v1/import/{name}", tag = "files", operation_id = "import_branch",
    params(("name" = String, Path, description = "The new branch; it may hold slashes")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "What an export gave"),
    responses(
        (status = 201, description = "It is there", body = Imported),
        (status = 400, description = "The file is damaged or none of ours; nothing was changed", body = Problem),
        (status = 409, description = "A branch of this name exists", body = Problem),
        (status = 507, description = "Too little of the disk would be free", body = Problem),
    )
)]
pub(crate) async fn import(
    State(app): State<Http>,
    Named(name): Named,
    headers: HeaderMap,
    body: Body,
) -> Answered<(StatusCode, Json<Imported>)> {
    let limit_bytes = app.settings().import_limit_bytes;
    let length_bytes = length_of(&headers).map_or(0, |length| length as u64);
    if length_bytes > limit_bytes {
        return Err(Refusal::too_large(limit_bytes));
    }
    let _seat = app.imports().try_acquire_owned().map_err(|_| crowded())?;
    let scratch = scratch(&app, length_bytes)?;
    let path = scratch.path().join("import");
    let received = receive(body, &path, limit_bytes, app.settings().spare());
    let received = tokio::time::timeout(app.settings().import_limit(), received).await;
    received.map_err(|_| Refusal::too_slow_file())??;
    let db = app.db().clone();
    let imported = app.transfer(move || {
        let report = db.import(&path, &name, &mut |_| {});
        // The scratch file must exist until the import is complete.
        drop(scratch);
        Ok(imported(name, report.map_err(of_upload)?))
    });
    Ok((StatusCode::CREATED, Json::of(imported.await?)))
}

pub(super) fn crowded() -> Refusal {
    let message =
        "as many files are being received as there may be: try later, or raise http.imports";
    Refusal::unavailable("Busy", message)
}

fn imported(name: String, report: ImportReport) -> Imported {
    let ImportReport { source, versions, tags, revision, .. } = report;
    Imported { name, source, versions, tags, revision }
}

/// Maps corrupt data to a client error, because the upload is damaged and not the database.
fn of_upload(error: Error) -> Refusal {
    match error.code() {
        Code::CorruptData => {
            Refusal::invalid("the file is damaged or no export of a branch; nothing was changed")
        }
        _ => error.into(),
    }
}

/// Writes a body to a file, piece by piece, up to the size limit and the disk reserve.
pub(super) async fn receive(
    mut body: Body,
    path: &Path,
    limit_bytes: u64,
    spare: DiskReserve,
) -> Answered<()> {
    let mut file = tokio::fs::File::create(path).await.map_err(|e| no_scratch(&e))?;
    let mut received_bytes = 0;
    let mut fitting_bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| cut(&error, limit_bytes))?;
        let Ok(piece) = frame.into_data() else { continue };
        received_bytes += piece.len() as u64;
        if received_bytes > limit_bytes {
            return Err(Refusal::too_large(limit_bytes));
        }
        if received_bytes > fitting_bytes {
            file = check_room(file, spare, ROOM_BYTES + piece.len() as u64).await?;
            fitting_bytes = received_bytes + ROOM_BYTES;
        }
        file.write_all(&piece).await.map_err(|e| no_scratch(&e))?;
    }
    file.flush().await.map_err(|e| no_scratch(&e))
}

/// Checks whether the disk has room for `more_bytes`. The system call may block, so it runs on a blocking
/// thread.
async fn check_room(
    file: tokio::fs::File,
    spare: DiskReserve,
    more_bytes: u64,
) -> Answered<tokio::fs::File> {
    let file = file.into_std().await;
    let looked = tokio::task::spawn_blocking(move || spare.check(&file, more_bytes).map(|()| file))
        .await
        .map_err(|_| Refusal::lost())?;
    looked.map(tokio::fs::File::from_std).map_err(|error| no_scratch(&error))
}

pub(super) fn scratch(app: &Http, bytes: u64) -> Answered<TempDir> {
    app.settings().scratch(bytes).map_err(|error| no_scratch(&error))
}

pub(super) fn no_scratch(error: &std::io::Error) -> Refusal {
    let code = match error.kind() {
        std::io::ErrorKind::StorageFull => Code::DiskFull,
        _ => Code::Io,
    };
    no_place(code, &error.to_string())
}

/// Adds advice to the database's error for a full disk.
pub(super) fn no_room(error: Error) -> Refusal {
    match error.code() {
        Code::DiskFull => no_place(Code::DiskFull, error.message()),
        _ => error.into(),
    }
}

fn no_place(code: Code, why: &str) -> Refusal {
    let message = format!(
        "the file on its way has no place: {why}; make room for scratch files, or name another disk \
         with http.scratch; http.scratch_reserve_bytes stay free"
    );
    Error::new(code, message).into()
}

/// Opens a finished file. Its name goes when the scratch directory is removed.
pub(super) fn ready(path: &Path, bytes: u64, revision: u64, name: &'static str) -> Answered<Ready> {
    let file = File::open(path).map_err(|error| no_scratch(&error))?;
    Ok(Ready { file, bytes, revision, counts: None, name })
}

pub(super) fn send(ready: Ready) -> Response {
    let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(ready.file), PIECE_BYTES);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(ready.name)),
        (header::CONTENT_LENGTH, HeaderValue::from(ready.bytes)),
        (REVISION, HeaderValue::from(ready.revision)),
    ];
    let mut response = (headers, Body::from_stream(pieces)).into_response();
    if let Some((cells, records, runs)) = ready.counts {
        response.headers_mut().insert(CELLS, HeaderValue::from(cells));
        response.headers_mut().insert(RECORDS, HeaderValue::from(records));
        response.headers_mut().insert(RUNS, HeaderValue::from(runs));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_taken_as_long_as_there_is_room() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("import");
        let take = |spare| receive(Body::from("all of it"), &path, 9, spare);
        let refused = take(DiskReserve::leaving(u64::MAX)).await.unwrap_err().text();
        assert!(refused.contains("DiskFull"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        take(DiskReserve::leaving(1)).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"all of it");
    }
}
