//! One flipped bit, and what came of it.

use crate::cuts::{DATABASE, settle};
use crate::disk::{Homes, Image};
use crate::drill::{Outcome, all_cells, options};
use mainstay::doctor::SalvageReport;
use mainstay::{At, doctor};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Where a bit is flipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    /// In this file.
    pub path: PathBuf,
    /// In this byte.
    pub offset: usize,
    /// This bit.
    pub bit: u8,
}

impl fmt::Display for Flip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bit {} of byte {} of {}", self.bit, self.offset, self.path.display())
    }
}

/// How it ended; each is as good as the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Nothing depends on the bit: everything is as it was, and the doctor finds it sound.
    Nothing,
    /// Opening found it and made the index anew.
    Rebuilt,
    /// The doctor finds it; nothing that is read depends on it.
    FoundByDoctor,
    /// Opening was refused; what was damaged was set aside, and all of it is there again.
    RefusedAndSalvaged,
    /// Opening was refused; nothing but a backup has what was there.
    Refused,
    /// A read was refused; what was damaged was set aside, and all of it is there again.
    ReadRefused,
}

/// Flips it in a copy of the files.
pub fn try_out(
    image: &Image,
    said: &[(u64, String)],
    flip: &Flip,
    homes: &Homes,
) -> Outcome<Ending> {
    let mut flipped = image.clone();
    let bytes = flipped.bytes_mut(&flip.path).ok_or("there is no such file")?;
    bytes[flip.offset] ^= 1 << flip.bit;
    flipped.write(&homes.image).map_err(|error| format!("writing an image: {error}"))?;
    let directory = homes.image.join(DATABASE);
    let found = Found::by_doctor(&directory, flip, image)?;
    let mut tally = Default::default();
    match settle(&flipped, said, &homes.image, &mut tally) {
        Ok(()) if tally.rebuilt > 0 => found.names_it(flip).map(|()| Ending::Rebuilt),
        Ok(()) if found.healthy => Ok(Ending::Nothing),
        Ok(()) => found.names_it(flip).map(|()| Ending::FoundByDoctor),
        Err(what) if is_refusal(&what) => {
            found.names_it(flip)?;
            flipped.write(&homes.image).map_err(|error| format!("writing an image: {error}"))?;
            mend(image, said, homes, what.starts_with("LOST: opening"))
        }
        Err(what) => Err(what),
    }
}

/// Whether something was refused, by a word for damage, instead of being answered.
fn is_refusal(what: &str) -> bool {
    ["CorruptData", "CorruptLog", "CorruptIndex", "ForeignDirectory", "NewerFormat"]
        .iter()
        .any(|word| what.contains(word))
}

/// Whether something is not there, in a database that opens and agrees with itself.
fn is_missed(what: &str) -> bool {
    what.starts_with("LOST: ") && !what.starts_with("LOST: opening")
}

fn is_tables(directory: &Path) -> bool {
    directory.ends_with("tables")
}

/// No frame of these drills is larger.
const REACH: usize = 64 << 10;

/// What a block of a table begins with: a word, a kind, a checksum; then its length, and what else is in front of its data.
const BLOCK: &[u8] = b"LSM\x03";
const BLOCK_LENGTH: std::ops::Range<usize> = 21..25;
const BLOCK_HEADER: usize = 33;

/// Which places may be told for a damaged byte of a file, of which this is what was written: where its block begins, or where
/// the blocks end; in a segment where a frame could begin.
fn places(bytes: &[u8], flip: &Flip) -> RangeInclusive<usize> {
    if !flip.path.parent().is_some_and(is_tables) {
        return flip.offset.saturating_sub(REACH)..=flip.offset;
    }
    let mut begin = 0;
    while let Some(end) = end_of_block(bytes, begin).filter(|end| *end <= flip.offset) {
        begin = end;
    }
    begin..=begin
}

fn end_of_block(bytes: &[u8], begin: usize) -> Option<usize> {
    let block = bytes.get(begin..)?;
    let length = block.get(BLOCK_LENGTH)?.try_into().map(u32::from_le_bytes).ok()?;
    block.starts_with(BLOCK).then_some(begin + BLOCK_HEADER + length as usize)
}

/// What the doctor says of it.
struct Found {
    healthy: bool,
    said: String,
    /// Where it may say that it is.
    places: RangeInclusive<usize>,
}

impl Found {
    fn by_doctor(directory: &Path, flip: &Flip, sound: &Image) -> Outcome<Found> {
        let bytes = sound.bytes(&flip.path).ok_or("there is no such file")?;
        let places = places(bytes, flip);
        match doctor::inspect(directory) {
            Ok(report) => {
                let said = report.findings.join("\n");
                Ok(Found { healthy: report.is_healthy(), said, places })
            }
            Err(error) if is_refusal(&format!("{:?}", error.code())) => {
                Ok(Found { healthy: false, said: error.to_string(), places })
            }
            Err(error) => Err(format!("the doctor cannot look at {flip}: {error}")),
        }
    }

    /// Damage that was met has a name, and in what is made of frames or blocks a place.
    fn names_it(&self, flip: &Flip) -> Outcome<()> {
        // Tables have numbers for names, and each store has such.
        let parts = if flip.path.parent().is_some_and(is_tables) { 3 } else { 1 };
        let parts: Vec<_> = flip.path.iter().rev().take(parts).collect();
        let name: PathBuf = parts.into_iter().rev().collect();
        let name = name.to_str().unwrap_or_default();
        let wrong = |what: &str| Err(format!("the doctor does not name the {what}: {}", self.said));
        let Some((_, behind)) = self.said.split_once(name).filter(|_| !self.healthy) else {
            return wrong("file");
        };
        let has_places = name.ends_with(".seg") || flip.path.parent().is_some_and(is_tables);
        let digits = behind.split_once("byte ").map_or("", |(_, place)| place);
        let place: String = digits.chars().take_while(char::is_ascii_digit).collect();
        match place.parse::<usize>() {
            Ok(place) if self.places.contains(&place) => Ok(()),
            _ if has_places => wrong("place"),
            _ => Ok(()),
        }
    }
}

/// Sets aside what is damaged, and looks for everything again.
fn mend(sound: &Image, said: &[(u64, String)], homes: &Homes, refused: bool) -> Outcome<Ending> {
    let salvaged = match doctor::salvage(&homes.image.join(DATABASE)) {
        Ok(salvaged) => salvaged,
        Err(error) if refused && is_refusal(&format!("{:?}", error.code())) => {
            return Ok(Ending::Refused);
        }
        Err(error) => return Err(format!("a read was refused, and it cannot be mended: {error}")),
    };
    let mended = Image::read(&homes.image).map_err(|error| format!("reading: {error}"))?;
    let mut tally = Default::default();
    match settle(&mended, said, &homes.image, &mut tally) {
        Ok(()) if refused => Ok(Ending::RefusedAndSalvaged),
        Ok(()) => Ok(Ending::ReadRefused),
        // What nobody but the damaged file had is gone, and whoever salvages is told so.
        Err(what) if refused && salvaged.lost.is_some() && is_missed(&what) => {
            mended.write(&homes.image).map_err(|error| format!("writing an image: {error}"))?;
            check_kept(sound, &salvaged, homes).map(|()| Ending::Refused)
        }
        Err(what) => Err(format!("after salvaging ({:?}): {what}", salvaged.done)),
    }
}

/// What a salvage says that it has kept is what was there at that revision, and nothing more is lost than it says.
fn check_kept(sound: &Image, salvaged: &SalvageReport, homes: &Homes) -> Outcome<()> {
    let told = |error: mainstay::Error| format!("looking at what was kept: {error}");
    let whole = homes.image.with_extension("sound");
    sound.write(&whole).map_err(|error| format!("writing an image: {error}"))?;
    let opened = options().open(homes.image.join(DATABASE)).map_err(told)?;
    let kept = salvaged.kept;
    if opened.open_report().revision != kept {
        return Err(format!("LOST: {:?} instead of revision {kept}", opened.open_report()));
    }
    let whole = options().open(whole.join(DATABASE)).map_err(told)?;
    for name in all_cells() {
        let then = whole.cells().at(At::Revision(kept)).map_err(told)?;
        let (was, is) = (then.get(&name).map_err(told)?, opened.cells().get(&name).map_err(told)?);
        if was != is {
            return Err(format!("LOST: {name} is {is:?} instead of {was:?} at revision {kept}"));
        }
    }
    Ok(())
}
