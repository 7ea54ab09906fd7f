//! `mainstay export` and `mainstay import`: copies a branch to a file and back.

use super::args::OnBranch;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::Field;
use super::http_client::{HttpArgs, HttpClient, encode_path};
use super::interrupt;
use super::output::RawFields;
use super::progress::Bar;
use clap::Args;
use mainstay::{ExportReport, ImportReport, verify_export};
use std::path::{Path, PathBuf};

/// Writing a branch to a file.
#[derive(Debug, Args)]
pub struct Export {
    /// The file to make; it must not exist yet
    file: PathBuf,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    http: HttpArgs,
}

/// Making a branch out of a file.
#[derive(Debug, Args)]
pub struct Import {
    /// A file that `export` wrote; all of it is checked first
    file: PathBuf,
    /// The branch to make; it must not exist yet
    branch: String,
    #[command(flatten)]
    http: HttpArgs,
}

impl Export {
    /// Writes the file and prints its contents.
    pub fn run(self, context: &mut Context) -> Result<()> {
        let branch = self.on.branch.unwrap_or_else(|| context.branch().to_owned());
        let file = &self.file;
        let report = interrupt::with_part_file(file, || {
            match HttpClient::for_server(context, &self.http)? {
                Some(http) => download(&http, &branch, file),
                None => {
                    let db = context.store()?.database()?;
                    let bar = Bar::new("exporting");
                    Ok(db.export(&branch, file, &mut |progress| bar.show(progress))?)
                }
            }
        })?;
        let row = vec![
            ("branch".into(), Field::text(&branch)),
            ("revision".into(), Field::number(report.revision)),
            ("cells".into(), Field::number(report.cells)),
            ("records".into(), Field::number(report.records)),
            ("runs".into(), Field::number(report.runs)),
            ("versions".into(), Field::number(report.versions)),
            ("tags".into(), Field::number(report.tags)),
            ("bytes".into(), Field::number(report.bytes)),
        ];
        context.printer.one(row, RawFields::All);
        Ok(())
    }
}

/// Requests the export from a server and downloads it.
fn download(http: &HttpClient, branch: &str, file: &Path) -> Result<ExportReport> {
    let bar = Bar::waiting("the server makes the file");
    let path = format!("/v1/export/{}", encode_path(branch));
    http.download("GET", &path, file, &bar, |part, response| {
        let [cells, records, runs] = ["mainstay-cells", "mainstay-records", "mainstay-runs"]
            .map(|what| response.headers().get(what).and_then(|n| n.to_str().ok()?.parse().ok()));
        let found = verify_export(part, &mut |progress| bar.show(progress)).map_err(|error| {
            Failure::from(error).hint("what arrived is not what was sent; ask again")
        })?;
        Ok(ExportReport {
            revision: found.revision,
            cells: cells.unwrap_or_default(),
            records: records.unwrap_or_default(),
            runs: runs.unwrap_or_default(),
            spaces: found.spaces,
            versions: found.versions,
            tags: found.tags,
            bytes: found.bytes,
        })
    })
}

impl Import {
    /// Creates the branch and prints its contents.
    pub fn run(self, context: &mut Context) -> Result<()> {
        let report = match HttpClient::for_server(context, &self.http)? {
            Some(http) => upload(&http, &self.file, &self.branch)?,
            None => {
                let db = context.store_to_write()?.database()?;
                let bar = Bar::new("importing");
                db.import(&self.file, &self.branch, &mut |progress| bar.show(progress))?
            }
        };
        let row = vec![
            ("branch".into(), Field::text(&self.branch)),
            ("source".into(), Field::text(&report.source)),
            ("revision".into(), Field::number(report.revision)),
            ("versions".into(), Field::number(report.versions)),
            ("tags".into(), Field::number(report.tags)),
        ];
        context.printer.one(row, RawFields::All);
        Ok(())
    }
}

/// Verifies the file locally, so that damage is reported precisely, then uploads it to a server for the
/// import.
fn upload(http: &HttpClient, file: &Path, branch: &str) -> Result<ImportReport> {
    let bar = Bar::of_bytes("checking");
    verify_export(file, &mut |progress| bar.show(progress))?;
    let answer = http.upload("POST", &format!("/v1/import/{}", encode_path(branch)), file, &bar)?;
    let number = |name: &str| answer.get(name).and_then(serde_json::Value::as_u64);
    let source = answer.get("source").and_then(serde_json::Value::as_str);
    Ok(ImportReport {
        source: source.unwrap_or_default().to_owned(),
        versions: number("versions").unwrap_or_default(),
        spaces: number("spaces").unwrap_or_default(),
        tags: number("tags").unwrap_or_default(),
        revision: number("revision").unwrap_or_default(),
    })
}
