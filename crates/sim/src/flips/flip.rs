//! One flipped bit, and its consequences.

use crate::cuts::{DATABASE, settle};
use crate::disk::{Homes, Image};
use crate::drill::{Outcome, all_cells, options};
use mainstay::doctor::SalvageReport;
use mainstay::{At, doctor};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The position of a flipped bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    /// The file.
    pub path: PathBuf,
    /// The offset of the byte in the file.
    pub offset: usize,
    /// The number of the bit in the byte.
    pub bit: u8,
}

impl fmt::Display for Flip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bit {} of byte {} of {}", self.bit, self.offset, self.path.display())
    }
}

/// The outcome of a flip. All outcomes are acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Nothing depends on the bit: all data is correct and the doctor reports the database as healthy.
    Nothing,
    /// Opening detected it and rebuilt the index.
    Rebuilt,
    /// The doctor detects it; no read depends on it.
    FoundByDoctor,
    /// Opening was refused; after a salvage all data is present.
    RefusedAndSalvaged,
    /// Opening was refused, and only a backup has all the data.
    Refused,
    /// A read was refused; after a salvage all data is present.
    ReadRefused,
}

/// Flips the bit in a copy of the files and returns the outcome.
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

/// Returns whether an error reports damage, instead of a wrong answer.
fn is_refusal(what: &str) -> bool {
    ["CorruptData", "CorruptLog", "CorruptIndex", "ForeignDirectory", "NewerFormat"]
        .iter()
        .any(|word| what.contains(word))
}

/// Returns whether data is missing in a database that opens and is consistent.
fn is_missed(what: &str) -> bool {
    what.starts_with("LOST: ") && !what.starts_with("LOST: opening")
}

fn is_tables(directory: &Path) -> bool {
    directory.ends_with("tables")
}

/// The size of the largest frame that these drills write.
const REACH: usize = 64 << 10;

/// The beginning of a table's block: magic, kind and checksum, followed by its length and other header
/// fields.
const BLOCK: &[u8] = b"LSM\x03";
const BLOCK_LENGTH: std::ops::Range<usize> = 21..25;
const BLOCK_HEADER: usize = 33;

/// Returns the offsets that the doctor may report for a damaged byte of a file with the original
/// content `bytes`. In a table this is the beginning of the block, or the end of the blocks. In a
/// segment it is any offset where a frame could begin.
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

/// The doctor's findings.
struct Found {
    healthy: bool,
    said: String,
    /// The offsets that it may report.
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

    /// Checks that the report names the damaged file, and in files of frames or blocks an offset.
    fn names_it(&self, flip: &Flip) -> Outcome<()> {
        // Tables have numbers as names, and each store has its own numbering.
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

/// Salvages the database and checks all data again.
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
        // Data that only the damaged file held is lost, and the salvage must report it.
        Err(what) if refused && salvaged.lost.is_some() && is_missed(&what) => {
            mended.write(&homes.image).map_err(|error| format!("writing an image: {error}"))?;
            check_kept(sound, &salvaged, homes).map(|()| Ending::Refused)
        }
        Err(what) => Err(format!("after salvaging ({:?}): {what}", salvaged.done)),
    }
}

/// Checks that the salvaged database equals the sound one at the revision that the salvage reports, and
/// that it lost nothing else.
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
        let was = then.get(&name).map_err(told)?;
        let is = opened.cells().get(&name).map_err(told)?;
        if was != is {
            return Err(format!("LOST: {name} is {is:?} instead of {was:?} at revision {kept}"));
        }
    }
    Ok(())
}
