//! A violation, kept so that it can be looked at again.

use super::explore::{Tally, settle};
use super::recording::Recording;
use crate::disk::Model;
use crate::drill::Outcome;
use mainstay_conformance::random::Random;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What went wrong, with all that leads there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trouble {
    /// What had happened.
    pub recording: Recording,
    /// What was said by then, by process.
    pub said: Vec<(u64, String)>,
    /// How much of it, when power failed.
    pub cut: usize,
    /// Under which model.
    pub model: Model,
    /// What its choices came from.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
    /// What was done, beside writing.
    pub procedure: Option<String>,
}

impl Trouble {
    /// Writes it to a file; says where it is.
    pub fn save(&self, path: &Path) -> String {
        let written = serde_json::to_vec(self)
            .map_err(std::io::Error::other)
            .and_then(|bytes| std::fs::write(path, bytes));
        match written {
            Ok(()) => format!("look at it again: prove again {}", path.display()),
            Err(error) => format!("it could not be kept: {error}"),
        }
    }

    /// Reads it.
    pub fn load(path: &Path) -> Outcome<Trouble> {
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let bytes = std::fs::read(path).map_err(told)?;
        serde_json::from_slice(&bytes).map_err(|error| told(std::io::Error::other(error)))
    }
}

/// Looks at a violation again; the files after the cut stay in a directory.
pub fn again(path: &Path, home: &Path) -> Outcome<()> {
    let Trouble { recording, said, cut, model, seed, what, procedure } = Trouble::load(path)?;
    let mut platter = recording.start.platter();
    let from = cut.saturating_sub(40);
    for (at, event) in recording.events[..cut].iter().enumerate() {
        if at >= from {
            println!("{at}: {}", brief(&format!("{event:?}")));
        }
        platter.apply(event);
    }
    let image = platter.cut(model, &mut Random::of(&[seed]));
    for (path, bytes) in image.files() {
        println!("{} has {} bytes", path.display(), bytes.len());
    }
    match procedure {
        None => settle(&image, &said, home, &mut Tally::default()),
        Some(procedure) => {
            image.write(home).map_err(|error| format!("writing an image: {error}"))?;
            println!("what {procedure} has left is in {}: {what}", home.display());
            Ok(())
        }
    }
}

fn brief(text: &str) -> String {
    text.chars().take(160).collect()
}
