//! The location of the repl's history file.

use std::ffi::OsString;
use std::path::PathBuf;

/// `mainstay/history` in the user's state directory; `None` without a home directory.
pub fn file() -> Option<PathBuf> {
    let directory = state_directory(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))?;
    let directory = directory.join("mainstay");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("history"))
}

fn state_directory(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // A relative path would create a history in every working directory.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    state
        .and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".local/state")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_is_the_users_own() {
        let home = || Some("/home/u".into());
        assert_eq!(state_directory(Some("/s".into()), home()), Some("/s".into()));
        assert_eq!(state_directory(None, home()), Some("/home/u/.local/state".into()));
        assert_eq!(state_directory(Some("s".into()), home()), Some("/home/u/.local/state".into()));
        assert_eq!(state_directory(None, None), None);
    }
}
