//! The program `mainstay`.

mod doctor;
mod paper;
mod tour;

use paper::Paper;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where the tour keeps its store.
const TOUR_DIRECTORY: &str = "mainstay-data";

const HELP: &str = "\
Mainstay, the state engine

  mainstay                         a guided tour on a store in ./mainstay-data
  mainstay doctor DIR              looks at the database in DIR and changes nothing
  mainstay doctor DIR --salvage    makes a damaged database open again; deletes nothing
  mainstay help                    this text
  mainstay --version               the version

The doctor's exit code: 0 healthy or salvaged, 1 a problem was found, 2 it could not look.
Colours go away with NO_COLOR=1 and when the output is not a terminal.";

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Tour,
    Serve,
    Doctor { directory: PathBuf, salvage: bool },
    Help,
    Version,
}

fn main() -> ExitCode {
    let mut paper = Paper::stdout();
    match wish(std::env::args_os().skip(1).collect()) {
        Ok(Wish::Serve) => serve(&mut paper),
        Ok(Wish::Tour) => tour::run(Path::new(TOUR_DIRECTORY), &mut paper),
        Ok(Wish::Doctor { directory, salvage: false }) => doctor::look(&directory, &mut paper),
        Ok(Wish::Doctor { directory, salvage: true }) => doctor::salvage(&directory, &mut paper),
        Ok(Wish::Help) => {
            paper.line(HELP);
            ExitCode::SUCCESS
        }
        Ok(Wish::Version) => {
            paper.line(concat!("mainstay ", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        Err(what) => {
            paper::complain(&format!("{what}; `mainstay help` lists what there is"));
            ExitCode::from(2)
        }
    }
}

fn serve(paper: &mut Paper) -> ExitCode {
    use mainstay_server::serve::{Serve, run};
    let env = |name: &str, otherwise: &str| std::env::var(name).unwrap_or(otherwise.to_owned());
    let mut settings = mainstay_server::resp::Settings::default();
    if env("DURABILITY", "") == "interval" {
        settings.durability = mainstay::Durability::Interval;
    }
    if let Ok(loops) = env("LOOPS", "2").parse() {
        settings.loops = loops;
    }
    let serve = Serve {
        data: env("DATA", TOUR_DIRECTORY).into(),
        resp: env("RESP", "127.0.0.1:7379").parse().unwrap(),
        settings,
    };
    match run(&serve, |_, at| paper.line(&format!("listening on {at}"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            paper::complain(&error.to_string());
            ExitCode::from(2)
        }
    }
}

fn wish(arguments: Vec<OsString>) -> Result<Wish, String> {
    let mut arguments = arguments.into_iter();
    let Some(first) = arguments.next() else { return Ok(Wish::Tour) };
    let wish = match first.to_str() {
        Some("serve") => Wish::Serve,
        Some("doctor") => return doctor_wish(arguments),
        Some("help" | "--help" | "-h") => Wish::Help,
        Some("version" | "--version" | "-V") => Wish::Version,
        _ => return Err(format!("there is no command {first:?}")),
    };
    match arguments.next() {
        None => Ok(wish),
        Some(more) => Err(format!("{first:?} takes nothing more, but {more:?} follows")),
    }
}

fn doctor_wish(arguments: impl Iterator<Item = OsString>) -> Result<Wish, String> {
    let (mut directory, mut salvage) = (None, false);
    for argument in arguments {
        if argument == "--salvage" {
            salvage = true;
        } else if argument.to_string_lossy().starts_with("--") {
            return Err(format!("the doctor knows --salvage, not {argument:?}"));
        } else if directory.replace(PathBuf::from(&argument)).is_some() {
            return Err(format!("the doctor looks at one directory, and {argument:?} is a second"));
        }
    }
    let directory = directory.ok_or("the doctor needs a directory: mainstay doctor DIR")?;
    Ok(Wish::Doctor { directory, salvage })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Wish, String> {
        wish(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn arguments_are_understood_in_any_order() {
        let doctor = |salvage| Ok(Wish::Doctor { directory: "d".into(), salvage });
        assert_eq!(of(&[]), Ok(Wish::Tour));
        assert_eq!(of(&["doctor", "d"]), doctor(false));
        assert_eq!(of(&["doctor", "--salvage", "d"]), doctor(true));
        assert_eq!(of(&["doctor", "d", "--salvage"]), doctor(true));
        assert_eq!(of(&["--version"]), Ok(Wish::Version));
    }

    #[test]
    fn everything_else_is_refused() {
        for words in [&["dokter"][..], &["doctor"], &["doctor", "a", "b"], &["help", "me"]] {
            assert!(of(words).is_err(), "{words:?}");
        }
        assert!(of(&["doctor", "d", "--slavage"]).unwrap_err().contains("--slavage"));
    }
}
