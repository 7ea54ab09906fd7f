//! `mainstay export` and `mainstay import`: a branch in one file, there and back.

use super::args::OnBranch;
use super::failure::Result;
use super::field::Field;
use super::progress::Bar;
use super::session::Session;
use clap::Args;
use std::path::PathBuf;

/// Writing a branch to a file.
#[derive(Debug, Args)]
pub struct Export {
    /// The file to make; it must not exist yet
    file: PathBuf,
    #[command(flatten)]
    on: OnBranch,
}

/// Making a branch out of a file.
#[derive(Debug, Args)]
pub struct Import {
    /// A file that `export` wrote; all of it is checked first
    file: PathBuf,
    /// The branch to make; it must not exist yet
    branch: String,
}

impl Export {
    /// Writes the file and says what it holds.
    pub fn run(self, session: &mut Session) -> Result<()> {
        let store = session.store()?;
        let branch = self.on.branch.unwrap_or_else(|| store.branch().to_owned());
        let bar = Bar::new("exporting");
        let db = store.database("an export")?;
        let report = db.export(&branch, &self.file, &mut |progress| bar.show(progress))?;
        drop(bar);
        let row = vec![
            ("branch".into(), Field::text(&branch)),
            ("revision".into(), Field::number(report.revision)),
            ("cells".into(), Field::number(report.cells)),
            ("versions".into(), Field::number(report.versions)),
            ("tags".into(), Field::number(report.tags)),
            ("bytes".into(), Field::number(report.bytes)),
        ];
        session.printer.one(row, None);
        Ok(())
    }
}

impl Import {
    /// Makes the branch and says what it holds.
    pub fn run(self, session: &mut Session) -> Result<()> {
        let db = session.store_to_write()?.database("an import")?;
        let bar = Bar::new("importing");
        let report = db.import(&self.file, &self.branch, &mut |progress| bar.show(progress))?;
        drop(bar);
        let row = vec![
            ("branch".into(), Field::text(&self.branch)),
            ("source".into(), Field::text(&report.source)),
            ("revision".into(), Field::number(report.revision)),
            ("versions".into(), Field::number(report.versions)),
            ("tags".into(), Field::number(report.tags)),
        ];
        session.printer.one(row, None);
        Ok(())
    }
}
